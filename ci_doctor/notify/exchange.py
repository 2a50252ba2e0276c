# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: requests to one service within a time of their own. A failure is a sentence.

A request that makes something is sent once: after a time-out nobody knows whether it has arrived.
"""

import re
import time
from collections.abc import Mapping
from typing import Final

from ci_doctor.buildkite.bounded_request import HttpReply, Patience, RequestLimits, request
from ci_doctor.version import tool_version

_MEBIBYTE: Final = 1024 * 1024
_BUSY: Final = frozenset({403, 429, 503})
_BROKEN: Final = frozenset({500, 502, 504})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SECONDS: Final = re.compile(r"[0-9]{1,6}")
_PAUSE_S: Final = 0.2
# Left for the request after a wait.
_LEAST_S: Final = 1.0


class ServiceExchange:
    """The requests of one message; `headers` may hold a token."""

    def __init__(self, headers: Mapping[str, str], limit_s: float) -> None:
        self._headers = {"User-Agent": f"ci-doctor/{tool_version()}", **headers}
        self._end = time.monotonic() + limit_s

    def get(self, url: str) -> HttpReply:
        """What lies at `url`; asked for once more if the service is broken or not reachable."""
        # A hundred comments of GitHub's largest size, in UTF-8.
        most = 32 * _MEBIBYTE
        reply = self._send("GET", url, b"", reply_bytes=most)
        is_broken = reply.status is None or reply.status in _BROKEN
        if reply.problem is None or not is_broken or self._left_s() < _LEAST_S:
            return reply
        time.sleep(_PAUSE_S)
        return self._send("GET", url, b"", reply_bytes=most)

    def send(self, method: str, url: str, content: bytes) -> HttpReply:
        """The reply to `content`, which is JSON."""
        return self._send(method, url, content, reply_bytes=_MEBIBYTE)

    def _send(self, method: str, url: str, content: bytes, *, reply_bytes: int) -> HttpReply:
        headers = dict(self._headers)
        if content:
            headers["Content-Type"] = "application/json"
        reply = self._try(method, url, content, headers, reply_bytes)
        wait_s = asked_wait_s(reply)
        if wait_s is None or wait_s + _LEAST_S > self._left_s():
            return reply
        # Refused before it did anything, so it may be sent again.
        time.sleep(max(wait_s, _PAUSE_S))
        return self._try(method, url, content, headers, reply_bytes)

    def _try(
        self, method: str, url: str, content: bytes, headers: Mapping[str, str], reply_bytes: int
    ) -> HttpReply:
        left_s = round(self._left_s(), 1)
        if left_s <= 0:
            return HttpReply(problem="the time for it is over")
        limits = RequestLimits(try_s=left_s, all_s=left_s, tries=1, reply_bytes=reply_bytes)
        return request(method, url, Patience(limits), headers=headers, content=content)

    def _left_s(self) -> float:
        return self._end - time.monotonic()


def asked_wait_s(reply: HttpReply) -> float | None:
    """Seconds that a busy service asks to wait (RFC 9110, Retry-After); None if it asks for none."""
    if reply.status not in _BUSY:
        return None
    text = reply.headers.get("retry-after", "")
    return float(text) if _SECONDS.fullmatch(text) else None


def reason_of(reply: HttpReply, meanings: Mapping[int, str] | None = None) -> str:
    """Why `reply` is a failure, in a sentence; `meanings` are those of a status at this service."""
    problem = reply.problem or f"HTTP {reply.status}"
    wait_s = asked_wait_s(reply)
    if wait_s is not None:
        return f"{problem}: the service asks to wait {wait_s:g} s, which is too long for a message"
    is_exhausted = reply.headers.get("x-ratelimit-remaining") == "0"
    if reply.status in _BUSY and (is_exhausted or reply.status == 429):
        return f"{problem}: the limit of requests is reached"
    if reply.status in _REDIRECTS:
        return f"{problem}: a redirect is not followed; use the address that it leads to"
    meaning = (meanings or {}).get(reply.status or 0)
    return f"{problem}: {meaning}" if meaning else problem
