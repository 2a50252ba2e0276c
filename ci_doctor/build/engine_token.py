# SPDX-License-Identifier: Apache-2.0
"""Acts on the agent: the token for Test Engine, from the environment or by OpenID Connect.

https://buildkite.com/docs/test-engine/test-collection/oidc
"""

from collections.abc import Mapping

from ci_doctor.build.engine_upload import TOKEN_VARIABLE
from ci_doctor.buildkite.artifacts import BuildAgent

_AUDIENCE = "https://buildkite.com/organizations/{organization}/analytics/suites/{suite}"


def engine_token(environ: Mapping[str, str], suite: str | None) -> str | None:
    """The suite's token; without one, a token of this job for `suite`. None if there is neither."""
    token = environ.get(TOKEN_VARIABLE, "").strip()
    if token:
        return token
    agent = BuildAgent.find(environ)
    organization = environ.get("BUILDKITE_ORGANIZATION_SLUG")
    if suite is None or agent is None or not organization:
        return None
    return agent.oidc_token(_AUDIENCE.format(organization=organization, suite=suite))
