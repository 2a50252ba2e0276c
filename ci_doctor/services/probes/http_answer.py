# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: one HTTP/1.1 question to a service, straight to it and past every proxy, and what the answer lacks."""

import asyncio
import contextlib
import functools
import ipaddress
import json
import re
import socket
import threading
from typing import TYPE_CHECKING

from ci_doctor.services.probes.ready import ReadinessProbe

if TYPE_CHECKING:
    from ssl import SSLContext

_LARGEST_BODY = 1024 * 1024
_MOST_LINES = 300
_LONGEST_SHOWN = 120
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})\b")
_NO_BODY = frozenset({204, 304})
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(probe: ReadinessProbe) -> Connection:
    """A connection to the probe's host. Raises OSError, that of the last address where several were tried."""
    context = _tls_context(checked=not _is_loopback(probe.host)) if probe.tls else None
    name = probe.host if context else None
    failed: OSError | None = None
    for address in await _addresses(probe.host, probe.port):
        try:
            return await asyncio.open_connection(
                address, probe.port, ssl=context, server_hostname=name
            )
        except OSError as error:
            failed = error
    raise failed or OSError(f"{probe.host} has no address")


async def ask(
    probe: ReadinessProbe, connection: Connection, authorization: str | None
) -> str | None:
    """None where the answer is what `probe` wants, else what it is.

    The body is read only where something is wanted of it, up to 1 MiB. Raises OSError, and ValueError or EOFError where
    the answer is no proper HTTP.
    """
    reader, writer = connection
    writer.write(_request(probe, authorization))
    await writer.drain()
    status = await _status(reader)
    while 100 <= status < 200 and status != 101:  # a hint; the answer follows it
        await _headers(reader)
        status = await _status(reader)
    if not probe.accepts(status):
        wanted = "" if probe.status == ("2xx",) else f", and not {' or '.join(probe.status)}"
        return f"HTTP status {status}{wanted}"
    if probe.body is None and probe.json is None:
        return None
    body = b"" if status in _NO_BODY else await _body(reader, await _headers(reader))
    return _mismatch(probe, body)


def _request(probe: ReadinessProbe, authorization: str | None) -> bytes:
    headers = {
        "host": probe.authority,
        "accept": "*/*",
        "accept-encoding": "identity",
        "user-agent": "ci-doctor",
    }
    headers |= {name.lower(): value for name, value in probe.headers}
    if authorization is not None:
        headers["authorization"] = authorization
    headers["connection"] = "close"
    lines = (
        f"GET {probe.path} HTTP/1.1",
        *(f"{name.title()}: {value}" for name, value in headers.items()),
    )
    return "\r\n".join((*lines, "\r\n")).encode()


async def _status(reader: asyncio.StreamReader) -> int:
    line = await _line(reader)
    match = _STATUS.match(line)
    if match is None:
        raise ValueError(
            "the answer is not HTTP" if line else "the connection was closed without an answer"
        )
    return int(match[1])


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError as error:  # 64 KiB without an end
        raise ValueError("the answer is not HTTP") from error


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(_MOST_LINES):
        line = (await _line(reader)).decode("latin-1").strip()
        if not line:
            return headers
        name, _colon, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise ValueError("the answer has more headers than any sensible server sends")


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    length = headers.get("content-length", "")
    if length.isdigit():
        return await reader.readexactly(min(int(length), _LARGEST_BODY))
    return await _up_to(reader, _LARGEST_BODY)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """RFC 9112, 7.1; extensions and trailers are of no interest."""
    body = b""
    while len(body) < _LARGEST_BODY:
        size = (await _line(reader)).partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size):
            raise ValueError("the answer says that it comes in chunks, and does not")
        if int(size, 16) == 0:
            return body
        body += await reader.readexactly(min(int(size, 16), _LARGEST_BODY - len(body)))
        await _line(reader)
    return body


async def _up_to(reader: asyncio.StreamReader, limit: int) -> bytes:
    body = b""
    while len(body) < limit and (piece := await reader.read(limit - len(body))):
        body += piece
    return body


def _mismatch(probe: ReadinessProbe, body: bytes) -> str | None:
    """What `body` lacks."""
    text = body.decode(errors="replace")
    if probe.body is not None and not re.search(probe.body, text, re.MULTILINE):
        return f"the body does not match /{probe.body}/: {_shown(text)}"
    if probe.json is None:
        return None
    if len(body) >= _LARGEST_BODY:
        return "the body is too long for a JSON document (1 MiB is read)"
    try:
        problem = probe.json.problem(json.loads(text))
    except (ValueError, RecursionError):
        return f"the body is no JSON: {_shown(text)}"
    return f"json {probe.json.text} does not hold, {problem}: {_shown(text)}" if problem else None


def _shown(text: str) -> str:
    plain = " ".join(
        "".join(each if each.isprintable() else " " for each in text[: 4 * _LONGEST_SHOWN]).split()
    )
    if not plain:
        return "it is empty" if not text else "it holds nothing that can be shown"
    return plain if len(plain) <= _LONGEST_SHOWN else plain[:_LONGEST_SHOWN] + "…"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@functools.cache
def _tls_context(*, checked: bool) -> "SSLContext":
    """On loopback nobody can stand in between, and what serves there has made its certificate itself."""
    import ssl

    context = ssl.create_default_context()
    if not checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def _addresses(host: str, port: int) -> list[str]:
    """The addresses of `host`. Raises OSError where it has none.

    Not by the event loop's own resolver: its threads are waited for when the loop ends, and a name server that does not
    answer would hold up the news of a death.
    """
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host.partition("%")[0])
        return [host]
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def tell(addresses: list[str] | OSError) -> None:
        if not found.done():
            found.set_exception(addresses) if isinstance(addresses, OSError) else found.set_result(
                addresses
            )

    def resolve() -> None:
        answer: list[str] | OSError
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer = list(dict.fromkeys(str(row[4][0]) for row in rows))
        except (OSError, UnicodeError) as error:
            answer = (
                error if isinstance(error, OSError) else OSError(f"{host} is no name of a host")
            )
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, answer)

    threading.Thread(target=resolve, daemon=True, name="resolver").start()
    return await found
