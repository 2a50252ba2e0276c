# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: one HTTP request, bounded in time and bytes; a failure is a sentence.

No message holds a header or an address: a token may stand in either.
"""

import math
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import httpx

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


class Patience:
    """The time that several requests may take together, from now on: `most_s` at most."""

    def __init__(self, limits: RequestLimits, *, most_s: float = math.inf) -> None:
        self.limits = limits
        self._deadline = time.monotonic() + min(limits.all_s, most_s)

    def left_s(self) -> float:
        """Seconds left; 0 or less if there are none."""
        return self._deadline - time.monotonic()

    def pause(self, number: int, *, least_s: float = 0.0) -> bool:
        """Wait before the try after `number` tries; False, at once, if it makes no sense."""
        pause_s = max(self.limits.pause_s * number, least_s)
        if number >= self.limits.tries or self.left_s() <= pause_s:
            return False
        time.sleep(pause_s)
        return True


def request(
    method: str,
    url: str,
    patience: Patience,
    *,
    headers: Mapping[str, str],
    content: bytes = b"",
) -> HttpReply:
    """The reply of the service at `url`; tried again if it is busy, broken or not reachable.

    Redirects are not followed: the headers hold a token.
    """
    # Raw bytes below: a compressed reply could trickle for ever without a byte of its content.
    own = {**headers, "Accept-Encoding": "identity"}
    number = 0
    while True:
        reply = _try(method, url, patience, headers=own, content=content)
        number += 1
        may_help = reply.status is None or reply.status in _RETRIED
        if reply.problem is None or not may_help:
            return reply
        if not patience.pause(number, least_s=_reset_s(reply)):
            return reply


def _reset_s(reply: HttpReply) -> float:
    """Seconds until Buildkite's limits of requests are over (docs/apis/rest-api/rate-limits)."""
    if reply.status != _TOO_MANY:
        return 0.0
    waits = [reply.headers.get(name, "") for name in _RESETS]
    return max((float(text) for text in waits if _SECONDS.fullmatch(text)), default=0.0)


def _try(
    method: str, url: str, patience: Patience, *, headers: Mapping[str, str], content: bytes
) -> HttpReply:
    """One try in a thread, which is left behind at the end of its time.

    httpx bounds each read of a socket, and no name's resolution. So a service whose headers
    trickle, or a resolver that is silent, would end no try.
    """
    # Its certificates take a while to load, and that time is not the service's.
    client = _client()
    if isinstance(client, HttpReply):
        return client
    limits = patience.limits
    left_s = min(limits.try_s, patience.left_s())
    if left_s <= 0:
        return HttpReply(problem="the time for it is over")
    ask = partial(client.stream, method, url, headers=headers, content=content, timeout=left_s)
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
