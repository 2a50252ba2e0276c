# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: which build somebody means by its number, its address or its id.

The agent knows builds by their ids alone. Buildkite's REST API has the id of a number
(https://buildkite.com/docs/apis/rest-api/builds#get-a-build; scope `read_builds`).
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.buildkite.bounded_request import Patience, RequestLimits, request
from ci_doctor.buildkite.rest_address import (
    BUILD,
    TOKEN_VARIABLE,
    address,
    missing_variables,
    refusal,
    token,
)
from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError, UsageError

CURRENT: Final = "current"
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_ADDRESS: Final = re.compile(r"https://[^/]+/([^/]+)/([^/]+)/builds/([0-9]{1,18})(?:[/?#].*)?")
_STATUSES: Final = {
    401: "the token is not valid",
    403: "the token lacks the scope read_builds",
    404: "the token may not read this pipeline, or there is no such build",
}


class NamedBuild(Struct, frozen=True, kw_only=True):
    """A build. id: None for that of this job. What is unknown of the rest is None."""

    label: str
    id: str | None = None
    organization: str | None = None
    pipeline: str | None = None
    number: int | None = None
    commit: str | None = None
    branch: str | None = None


class _BuildReply(Struct, frozen=True):
    id: str
    commit: str | None = None
    branch: str | None = None


def named_build(
    word: str, environ: Mapping[str, str], *, limits: RequestLimits | None = None
) -> NamedBuild:
    """The build that `word` means: `current`, a number of this pipeline, an address, or an id.

    Raises UsageError for another word and without a token that may read it, InfraError if the API
    does not answer.
    """
    if _ID.fullmatch(word) and word != environ.get("BUILDKITE_BUILD_ID"):
        return NamedBuild(label=word, id=word)
    place = _placed(word, environ)
    if all(place.get(variable) == environ.get(variable) for _, variable in BUILD):
        return _current(environ)
    missing = missing_variables(place, BUILD)
    if missing:
        raise UsageError(
            f"--build {word}: {', '.join(missing)} is not set",
            hint="run it in a Buildkite job, or give the address of the build",
        )
    reply = _reply(word, place, limits or RequestLimits())
    return NamedBuild(
        label=f"build {place['BUILDKITE_BUILD_NUMBER']}",
        id=reply.id,
        organization=place["BUILDKITE_ORGANIZATION_SLUG"],
        pipeline=place["BUILDKITE_PIPELINE_SLUG"],
        number=int(place["BUILDKITE_BUILD_NUMBER"]),
        commit=_resolved(reply.commit),
        branch=reply.branch or None,
    )


def _current(environ: Mapping[str, str]) -> NamedBuild:
    number = environ.get("BUILDKITE_BUILD_NUMBER", "")
    is_known = _NUMBER.fullmatch(number) is not None
    return NamedBuild(
        label=f"build {number}" if is_known else "this build",
        organization=environ.get("BUILDKITE_ORGANIZATION_SLUG") or None,
        pipeline=environ.get("BUILDKITE_PIPELINE_SLUG") or None,
        number=int(number) if is_known else None,
        commit=_resolved(environ.get("BUILDKITE_COMMIT")),
        branch=environ.get("BUILDKITE_BRANCH") or None,
    )


def _placed(word: str, environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with the variables of the build that `word` means."""
    if word in (CURRENT, environ.get("BUILDKITE_BUILD_ID")):
        return dict(environ)
    if _NUMBER.fullmatch(word):
        return {**environ, "BUILDKITE_BUILD_NUMBER": word}
    match = _ADDRESS.fullmatch(word)
    if match is None:
        raise UsageError(
            f"--build {word}: it is no build",
            hint="`current`, a number, an address such as https://buildkite.com/ORG/PIPELINE/builds/812, or an id",
        )
    variables = [variable for _, variable in BUILD]
    return {**environ, **dict(zip(variables, match.groups(), strict=True))}


def _reply(word: str, place: Mapping[str, str], limits: RequestLimits) -> _BuildReply:
    secret = token(place)
    if not secret:
        raise UsageError(
            f"--build {word}: the agent knows builds by their ids, and {TOKEN_VARIABLE} is not set",
            hint="set it to a token with the scope read_builds, or give the id of the build",
        )
    refused = refusal(place)
    if refused is not None:
        raise UsageError(f"--build {word}: {refused}")
    url = f"{address(place, BUILD)}?exclude_jobs=true&exclude_pipeline=true"
    headers = {"Authorization": f"Bearer {secret}", "Accept": "application/json"}
    reply = request("GET", url, Patience(limits), headers=headers)
    reason = _STATUSES.get(reply.status or 0)
    if reason is not None:
        raise UsageError(f"--build {word}: Buildkite's REST API: {reason}")
    if reply.problem is not None:
        raise InfraError(f"--build {word}: Buildkite's REST API: {reply.problem}")
    try:
        decoded = msgspec.json.decode(reply.body, type=decodable(_BuildReply))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InfraError(f"--build {word}: Buildkite's REST API: {error}") from error
    if not _ID.fullmatch(decoded.id):
        raise InfraError(f"--build {word}: Buildkite's REST API: the build's id is odd")
    return decoded


def _resolved(commit: str | None) -> str | None:
    """A commit; `HEAD` stands for one that no agent has checked out yet."""
    return None if commit in ("", "HEAD") else commit
