# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: asks a service whether it is ready."""

import asyncio
import re

from ci_doctor.services.spec import Scheme, Target
from ci_doctor.system import clock

_LONGEST_ATTEMPT_S = 5.0
_SHORTEST_ATTEMPT_S = 0.1  # the last one, made when time is up, must not fail for its own haste
_FIRST_PAUSE_S = 0.05
# Asking a closed local port costs microseconds; asking a server that is loading takes time from it.
_LONGEST_PAUSE_REFUSED_S = 0.1
_LONGEST_PAUSE_ANSWERED_S = 1.0
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})\b")
_REFUSED = "connection refused"


async def wait_until_ready(target: Target, limit_s: float) -> str | None:
    """None once `target` is ready: HTTP answers 200 to 299, TCP accepts. After `limit_s`, what was seen last.

    Each attempt has a time limit of its own, the pauses between them grow. Sockets are opened directly, so proxy
    variables have no say.
    """
    deadline = clock.now() + limit_s
    pause = _FIRST_PAUSE_S
    while True:
        seen = await _attempt_within(target, min(max(deadline - clock.now(), _SHORTEST_ATTEMPT_S), _LONGEST_ATTEMPT_S))
        left = deadline - clock.now()
        if seen is None or left <= 0:
            return seen
        pause = min(pause, _LONGEST_PAUSE_REFUSED_S if seen == _REFUSED else _LONGEST_PAUSE_ANSWERED_S)
        await asyncio.sleep(min(pause, left))
        pause *= 1.5


async def _attempt_within(target: Target, limit_s: float) -> str | None:
    try:
        async with asyncio.timeout(limit_s):
            return await _attempt(target)
    except TimeoutError:
        return f"no answer within {limit_s:.3g} s"
    except (OSError, ValueError) as error:  # ValueError: a first line beyond all measure
        # A name with several addresses that all refuse is one OSError without errno.
        refused = isinstance(error, ConnectionRefusedError) or "[Errno 111]" in str(error)
        return _REFUSED if refused else f"no answer: {error}"


async def _attempt(target: Target) -> str | None:
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        return None if target.scheme is Scheme.TCP else await _ask(target, reader, writer)
    finally:
        writer.transport.abort()


async def _ask(target: Target, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str | None:
    host = f"[{target.host}]" if ":" in target.host else target.host
    writer.write(
        f"GET {target.path} HTTP/1.1\r\nHost: {host}:{target.port}\r\n"
        "Accept: */*\r\nUser-Agent: ci-doctor\r\nConnection: close\r\n\r\n".encode()
    )
    await writer.drain()
    line = await reader.readline()
    match = _STATUS.match(line)
    if match is None:
        return "the connection was closed without an answer" if not line else "the answer is not HTTP"
    status = int(match[1])
    return None if 200 <= status < 300 else f"HTTP status {status}"
