# SPDX-License-Identifier: Apache-2.0
"""Pure. Where Buildkite's REST API is, by the job's variables, and the token for it."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

# The names that Buildkite's own command line reads (github.com/buildkite/cli, internal/config).
ENDPOINT_VARIABLE: Final = "BUILDKITE_REST_API_ENDPOINT"
TOKEN_VARIABLE: Final = "BUILDKITE_API_TOKEN"  # noqa: S105 - the variable's name
_ENDPOINT: Final = "https://api.buildkite.com"
BUILD: Final = (
    ("organizations", "BUILDKITE_ORGANIZATION_SLUG"),
    ("pipelines", "BUILDKITE_PIPELINE_SLUG"),
    ("builds", "BUILDKITE_BUILD_NUMBER"),
)
JOB: Final = (*BUILD, ("jobs", "BUILDKITE_JOB_ID"))
Resource = tuple[tuple[str, str], ...]


def token(environ: Mapping[str, str]) -> str:
    """The token without the white space around it; empty if there is none."""
    return environ.get(TOKEN_VARIABLE, "").strip()


def missing_variables(environ: Mapping[str, str], resource: Resource) -> list[str]:
    """The variables of `resource`, BUILD or JOB, that are not set or empty."""
    return [variable for _, variable in resource if not environ.get(variable)]


def address(environ: Mapping[str, str], resource: Resource) -> str:
    """The address of `resource`, of which no variable is missing.

    The endpoint may end in `/v2` or not, as Buildkite's own command line takes it.
    """
    endpoint = environ.get(ENDPOINT_VARIABLE) or _ENDPOINT
    path = endpoint.rstrip("/").removesuffix("/v2") + "/v2"
    for kind, variable in resource:
        path += f"/{kind}/{quote(environ[variable], safe='')}"
    return path
