# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: sends one HTTP/1.1 request to a service, and tells what the answer lacks."""

import asyncio
import contextlib
import functools
import ipaddress
import json
import re
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ci_doctor.model.shortened import shortened
from ci_doctor.services.probes.ready import ReadinessProbe

if TYPE_CHECKING:
    from ssl import SSLContext


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address, or `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(_without_zone(host)).is_loopback
    except ValueError:
        return False


async def addresses(host: str, port: int) -> list[str]:
    """The addresses of `host`. Raises OSError if it has none.

    The event loop's own resolver is not used: the end of the loop waits for its threads, and a name
    server that does not answer would delay the news of a death.
    """
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(_without_zone(host))
        return [host]
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def deliver(result: list[str] | OSError) -> None:
        if answer.done():
            return
        if isinstance(result, OSError):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    def resolve() -> None:
        result = _resolved(host, port)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(deliver, result)

    threading.Thread(target=resolve, daemon=True, name="resolver").start()
    return await answer


def _resolved(host: str, port: int) -> list[str] | OSError:
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError:  # the idna codec refuses it
        return OSError(f"{host} is no name of a host")
    # Each address once, in the order of preference (RFC 6724).
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _without_zone(host: str) -> str:
    return host.partition("%")[0]


# What answers on the port may be anything, and may never stop sending.
_LARGEST_BODY = 1024 * 1024
_MOST_LINES = 300
_MOST_DIGITS = 18
_LONGEST_SHOWN = 120
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})\b")
# Not int() alone, which also takes a sign, blanks and underscores.
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
# A body never follows these (RFC 9112, 6.3): to wait for one would take the whole attempt.
_NO_BODY = frozenset({204, 304})
# The only 1xx status after which no final answer in HTTP/1.1 comes (RFC 9110, 15.2.2).
_SWITCHING_PROTOCOLS = 101
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(probe: ReadinessProbe) -> Connection:
    """A connection to the probe's host, past every proxy.

    Raises OSError: that of the last address, if several were tried.
    """
    context = None
    name = None
    if probe.tls:
        context = _tls_context(checked=not is_loopback(probe.host))
        # The connection is made to an address, and the certificate is about the name.
        name = probe.host
    last_error: OSError | None = None
    # `localhost` may be both ::1 and 127.0.0.1, and a server may listen on one of them only.
    for address in await addresses(probe.host, probe.port):
        try:
            return await asyncio.open_connection(
                address, probe.port, ssl=context, server_hostname=name
            )
        except OSError as error:
            last_error = error
    raise last_error or OSError(f"{probe.host} has no address")


async def ask(
    probe: ReadinessProbe, connection: Connection, authorization: str | None
) -> str | None:
    """None if the answer is what `probe` wants, else what it is.

    The body is read only if the probe has a condition on it, up to 1 MiB. Raises OSError, and
    ValueError or EOFError if the answer is no proper HTTP.
    """
    reader, writer = connection
    writer.write(_request(probe, authorization))
    await writer.drain()
    status = await _status(reader)
    while 100 <= status < 200 and status != _SWITCHING_PROTOCOLS:
        # An interim response (RFC 9110, 15.2): the final one follows it.
        await _headers(reader)
        status = await _status(reader)
    if not probe.accepts(status):
        return _unwanted(status, probe.status)
    if probe.body is None and probe.json is None:
        return None
    body = b""
    if status not in _NO_BODY:
        body = await _body(reader, await _headers(reader))
    return _mismatch(probe, body)


def _unwanted(status: int, wanted: Sequence[str]) -> str:
    # Everybody expects a 2xx; only what was configured needs to be repeated.
    if tuple(wanted) == ("2xx",):
        return f"HTTP status {status}"
    return f"HTTP status {status}, and not {' or '.join(wanted)}"


def _request(probe: ReadinessProbe, authorization: str | None) -> bytes:
    headers = {
        "host": probe.authority,
        "accept": "*/*",
        # A compressed body could not be searched.
        "accept-encoding": "identity",
        "user-agent": "ci-doctor",
    }
    for name, value in probe.headers:
        headers[name.lower()] = value
    if authorization is not None:
        headers["authorization"] = authorization
    # Last, so that no header of the user keeps the connection open.
    headers["connection"] = "close"
    lines = [f"GET {probe.path} HTTP/1.1"]
    for name, value in headers.items():
        lines.append(f"{name.title()}: {value}")
    return "\r\n".join((*lines, "\r\n")).encode()


async def _status(reader: asyncio.StreamReader) -> int:
    line = await _line(reader)
    if not line:
        raise ValueError("the connection was closed without an answer")
    match = _STATUS.match(line)
    if match is None:
        raise ValueError("the answer is not HTTP")
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
    length = headers.get("content-length")
    if length is not None:
        return await reader.readexactly(_body_length(length))
    # Without a length the body ends with the connection (RFC 9112, 6.3).
    return await _up_to(reader, _LARGEST_BODY)


def _body_length(text: str) -> int:
    """The bytes to read of a body with this Content-Length."""
    # Not isdigit() alone, which also takes digits of other scripts.
    if not text.isascii() or not text.isdigit():
        raise ValueError("the answer's Content-Length is no number")
    # int() refuses thousands of digits.
    if len(text) > _MOST_DIGITS:
        return _LARGEST_BODY
    return min(int(text), _LARGEST_BODY)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """RFC 9112, 7.1; extensions and trailers are of no interest."""
    body = b""
    while len(body) < _LARGEST_BODY:
        size_text = (await _line(reader)).partition(b";")[0].strip()
        if not _CHUNK_SIZE.fullmatch(size_text):
            raise ValueError("the answer announces chunked encoding but is not chunked")
        size = int(size_text, 16)
        if size == 0:
            return body
        body += await reader.readexactly(min(size, _LARGEST_BODY - len(body)))
        # The line end after each chunk.
        await _line(reader)
    return body


async def _up_to(reader: asyncio.StreamReader, limit: int) -> bytes:
    body = b""
    while len(body) < limit:
        piece = await reader.read(limit - len(body))
        if not piece:
            break
        body += piece
    return body


def _mismatch(probe: ReadinessProbe, body: bytes) -> str | None:
    """What `body` lacks; None if it is what the probe wants."""
    text = body.decode(errors="replace")
    if probe.body is not None and not re.search(probe.body, text, re.MULTILINE):
        return f"the body does not match /{probe.body}/: {_shown(text)}"
    if probe.json is None:
        return None
    # Cut off there, so it cannot be parsed.
    if len(body) >= _LARGEST_BODY:
        return "the body is too long for a JSON document (1 MiB is read)"
    try:
        problem = probe.json.problem(json.loads(text))
    except (ValueError, RecursionError):
        return f"the body is no JSON: {_shown(text)}"
    if problem is None:
        return None
    return f"json {probe.json.text} does not hold, {problem}: {_shown(text)}"


def _shown(text: str) -> str:
    """The beginning of a body, as one line that a terminal can show."""
    # Before the rest: a body may be 1 MiB, and blanks in it are folded below.
    beginning = text[: 4 * _LONGEST_SHOWN]
    printable = "".join(each if each.isprintable() else " " for each in beginning)
    plain = " ".join(printable.split())
    if not text:
        return "it is empty"
    if not plain:
        return "it holds nothing that can be shown"
    return shortened(plain, _LONGEST_SHOWN)


@functools.cache
def _tls_context(*, checked: bool) -> "SSLContext":
    """On loopback nobody can stand in between, and a server there has made its own certificate."""
    import ssl

    context = ssl.create_default_context()
    if not checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
