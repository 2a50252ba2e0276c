# SPDX-License-Identifier: Apache-2.0
"""Pure. Where Buildkite's REST API is, by the job's variables, and the token for it."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

# The names that Buildkite's own command line reads (github.com/buildkite/cli, internal/config).
ENDPOINT_VARIABLE: Final = "BUILDKITE_REST_API_ENDPOINT"
TOKEN_VARIABLE: Final = "BUILDKITE_API_TOKEN"  # noqa: S105 - the variable's name
_ENDPOINT: Final = "https://api.buildkite.com"
BUILD: Final = (
    ("organizations", "BUILDKITE_ORGANIZATION_SLUG"),
    ("pipelines", "BUILDKITE_PIPELINE_SLUG"),
    ("builds", "BUILDKITE_BUILD_NUMBER"),
)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
JOB: Final = (*BUILD, ("jobs", "BUILDKITE_JOB_ID"))
Resource = tuple[tuple[str, str], ...]


def token(environ: Mapping[str, str]) -> str:
    """The token without the white space around it; empty if there is none."""
    return environ.get(TOKEN_VARIABLE, "").strip()


def missing_variables(environ: Mapping[str, str], resource: Resource) -> list[str]:
    """The variables of `resource`, BUILD or JOB, that are not set or empty."""
    return [variable for _, variable in resource if not environ.get(variable)]


def endpoint(environ: Mapping[str, str]) -> str:
    """Where the API is: Buildkite's own address, or what the variable names."""
    return environ.get(ENDPOINT_VARIABLE) or _ENDPOINT


def is_encrypted(url: str) -> bool:
    """Whether what is sent to `url` cannot be read on the way: https with a host."""
    scheme, host = _parts(url)
    return scheme == "https" and host is not None


def is_local(url: str) -> bool:
    """Whether `url` is of a server on this machine without encryption, as in tests."""
    scheme, host = _parts(url)
    return scheme == "http" and host in _LOOPBACK


def refusal(environ: Mapping[str, str]) -> str | None:
    """Why no token is sent to the endpoint; None if it may be."""
    url = endpoint(environ)
    if is_encrypted(url) or is_local(url):
        return None
    return f"{ENDPOINT_VARIABLE} is no https address, so the token is not sent there"


def _parts(url: str) -> tuple[str, str | None]:
    try:
        parts = urlsplit(url)
    except ValueError:  # an odd address in brackets
        return "", None
    return parts.scheme, parts.hostname


def address(environ: Mapping[str, str], resource: Resource) -> str:
    """The address of `resource`, of which no variable is missing.

    The endpoint may end in `/v2` or not, as Buildkite's own command line takes it.
    """
    path = endpoint(environ).rstrip("/").removesuffix("/v2") + "/v2"
    for kind, variable in resource:
        path += f"/{kind}/{quote(environ[variable], safe='')}"
    return path
