# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: requests to Buildkite's REST API, bounded in time and bytes."""

import math
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from msgspec import Struct

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import httpx


# --- one HTTP request, bounded in time and bytes; a failure is a sentence ---
# No message holds a header or an address: a token may stand in either.

_TOO_MANY = 429
_RESETS = ("ratelimit-reset", "ratelimit-user-reset")
_SECONDS = re.compile(r"[0-9]{1,6}")
_RETRIED = frozenset({_TOO_MANY, 500, 502, 503, 504})


class RequestLimits(Struct, frozen=True, kw_only=True):
    """Seconds of one try and of all, tries, seconds between tries, bytes of a reply."""

    try_s: float = 5.0
    all_s: float = 15.0
    tries: int = 3
    pause_s: float = 1.0
    reply_bytes: int = 64 * 1024 * 1024


class HttpReply(Struct, frozen=True, kw_only=True):
    """What a service answered; `problem` is None for a status below 300.

    headers: by their names in lower case.
    """

    status: int | None = None
    body: bytes = b""
    headers: Mapping[str, str] = {}
    problem: str | None = None


def get(
    url: str, limits: RequestLimits, *, headers: Mapping[str, str], most_s: float = math.inf
) -> HttpReply:
    """The reply of the service at `url`; tried again if it is busy, broken or not reachable.

    most_s: for all tries together, if that is less than their limit. Redirects are not followed: the headers hold a token.
    """
    # Raw bytes below: a compressed reply could trickle for ever without a byte of its content.
    own = {**headers, "Accept-Encoding": "identity"}
    deadline = time.monotonic() + min(limits.all_s, most_s)
    number = 0
    while True:
        number += 1
        reply = _try(url, limits, own, left_s=deadline - time.monotonic())
        may_help = reply.status is None or reply.status in _RETRIED
        if reply.problem is None or not may_help:
            return reply
        pause_s = max(limits.pause_s * number, _reset_s(reply))
        if number >= limits.tries or deadline - time.monotonic() <= pause_s:
            return reply
        time.sleep(pause_s)


def _reset_s(reply: HttpReply) -> float:
    """Seconds until Buildkite's limits of requests are over (docs/apis/rest-api/rate-limits)."""
    if reply.status != _TOO_MANY:
        return 0.0
    waits = [reply.headers.get(name, "") for name in _RESETS]
    return max((float(text) for text in waits if _SECONDS.fullmatch(text)), default=0.0)


def _try(
    url: str, limits: RequestLimits, headers: Mapping[str, str], *, left_s: float
) -> HttpReply:
    """One try in a thread, which is left behind at the end of its time.

    httpx bounds each read of a socket, and no name's resolution. So a service whose headers
    trickle, or a resolver that is silent, would end no try.
    """
    # Its certificates take a while to load, and that time is not the service's.
    began = time.monotonic()
    client = _client()
    if isinstance(client, HttpReply):
        return client
    left_s = min(limits.try_s, left_s - (time.monotonic() - began))
    if left_s <= 0:
        return HttpReply(problem="the time for it is over")
    ask = partial(client.stream, "GET", url, headers=headers, timeout=left_s)
    replies: list[HttpReply] = []
    end = time.monotonic() + left_s
    thread = threading.Thread(
        target=lambda: replies.append(_exchange(client, ask, end, limits)), daemon=True
    )
    thread.start()
    thread.join(left_s)
    return replies[0] if replies else HttpReply(problem=_no_answer(limits))


def _client() -> "httpx.Client | HttpReply":
    """A client, or why there is none: a proxy of the environment that httpx cannot use."""
    import httpx

    try:
        return httpx.Client()
    # ImportError: of a SOCKS proxy. OSError: certificates that are not there.
    except (httpx.InvalidURL, ImportError, ValueError, OSError) as error:
        return HttpReply(status=0, problem=_impossible(error))


def _exchange(
    client: "httpx.Client",
    ask: "Callable[[], AbstractContextManager[httpx.Response]]",
    end: float,
    limits: RequestLimits,
) -> HttpReply:
    import httpx

    try:
        with client, ask() as response:
            return _read(response, end, limits)
    except httpx.TimeoutException:
        return HttpReply(problem=_no_answer(limits))
    except httpx.ConnectError as error:
        return HttpReply(problem=_unreachable(error))
    # ValueError: an address or a token that no request can hold.
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        return HttpReply(problem=_impossible(error))


def _read(response: "httpx.Response", end: float, limits: RequestLimits) -> HttpReply:
    """The whole reply. httpx's own limits are per read: a service that trickles would never end."""
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > limits.reply_bytes:
            return HttpReply(status=response.status_code, problem="the answer is too large")
        if time.monotonic() > end:
            return HttpReply(problem=_no_answer(limits))
    problem = None if response.is_success else f"HTTP {response.status_code}"
    return HttpReply(
        status=response.status_code,
        body=bytes(body),
        headers=dict(response.headers),
        problem=problem,
    )


def _unreachable(error: BaseException) -> str:
    """Why there is no connection, by what httpx and httpcore were raised from."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return "no encrypted connection (TLS)"
        if isinstance(cause, socket.gaierror):
            return "its name has no address"
        cause = cause.__cause__ or cause.__context__
    return "no connection"


def _impossible(error: Exception) -> str:
    return f"no request is possible ({type(error).__name__})"


def _no_answer(limits: RequestLimits) -> str:
    return f"no whole answer within {limits.try_s:g} s"


# --- where Buildkite's REST API is, by the job's variables, and the token for it ---

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


def refusal(environ: Mapping[str, str]) -> str | None:
    """Why no token is sent to the endpoint; None if nobody reads it on the way there.

    That is https with a host, or a server on this machine, as in tests.
    """
    try:
        parts = urlsplit(endpoint(environ))
        scheme, host = parts.scheme, parts.hostname
    except ValueError:  # an odd address in brackets
        scheme, host = "", None
    if (scheme == "https" and host is not None) or (scheme == "http" and host in _LOOPBACK):
        return None
    return f"{ENDPOINT_VARIABLE} is no https address, so the token is not sent there"


def address(environ: Mapping[str, str], resource: Resource) -> str:
    """The address of `resource`, of which no variable is missing.

    The endpoint may end in `/v2` or not, as Buildkite's own command line takes it.
    """
    path = endpoint(environ).rstrip("/").removesuffix("/v2") + "/v2"
    for kind, variable in resource:
        path += f"/{kind}/{quote(environ[variable], safe='')}"
    return path
