# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: sends one HTTP/1.1 request to a service, and tells what the answer lacks."""

import asyncio
import contextlib
import functools
import ipaddress
import re
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci_doctor.model.words import shortened
from ci_doctor.services.busy_timeout import aside
from ci_doctor.services.ready import ReadinessProbe

if TYPE_CHECKING:
    from ssl import SSLContext

    import h11


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address, or `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(_without_zone(host)).is_loopback
    except ValueError:
        return False


async def addresses(host: str, port: int) -> list[str]:
    """The addresses of `host`. Raises OSError if it has none."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(_without_zone(host))
        return [host]
    try:
        rows = await aside(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except UnicodeError as error:  # the idna codec refuses it
        raise OSError(f"{host} is no name of a host") from error
    # Each address once, in the order of preference (RFC 6724).
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _without_zone(host: str) -> str:
    return host.partition("%")[0]


# What answers on the port may be anything, and may never stop sending.
_LARGEST_BODY = 1024 * 1024
_LARGEST_HEAD = 64 * 1024
_PIECE = 64 * 1024
_LONGEST_SHOWN = 120
_BEGINNING = b"HTTP/"
# What may stand in a request line (RFC 9112, 3): anything else is written as its UTF-8 in percent.
_TARGET = "".join(map(chr, range(0x21, 0x7F)))
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(probe: ReadinessProbe) -> Connection:
    """A connection to the probe's socket or host, past every proxy.

    Raises OSError: that of the last address, if several were tried.
    """
    if probe.socket is not None:
        return await asyncio.open_unix_connection(probe.socket)
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

    The body is read only if the probe has a condition on it, up to 1 MiB; one of events
    (`text/event-stream`) as far as the condition holds. Raises OSError, and ValueError or EOFError
    if the answer is no proper HTTP.
    """
    # Late: most starts of ci-doctor ask nobody. h11 is a tenth of what a client takes to load.
    import h11

    reader, writer = connection
    state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)
    writer.write(_request(state, probe, authorization))
    await writer.drain()
    status = 0
    body = bytearray()
    is_stream = False
    async for event in _events(state, reader):
        if isinstance(event, h11.Data):
            body += event.data
            # The first token is enough, and the last one may be minutes away.
            if is_stream and _lack(probe, status, bytes(body)) is None:
                break
        elif isinstance(event, h11.Response | h11.InformationalResponse):
            status = int(event.status_code)
            kinds = [value for name, value in event.headers if name == b"content-type"]
            is_stream = any(kind.startswith(b"text/event-stream") for kind in kinds)
        else:
            break
        # An interim response (RFC 9110, 15.2): the final one follows it. After 101 h11 is paused
        # for good: the server speaks another protocol.
        is_interim = status < 200 and status != 101
        is_lacking = not probe.accepts(status) or probe.body is None
        if not is_interim and (is_lacking or len(body) >= _LARGEST_BODY):
            break
    return _lack(probe, status, bytes(body[:_LARGEST_BODY]))


def _lack(probe: ReadinessProbe, status: int, body: bytes) -> str | None:
    """None if an answer is what `probe` wants, else what it is."""
    if not probe.accepts(status):
        # Everybody expects a 2xx; only what was configured needs to be repeated.
        if probe.status == ("2xx",):
            return f"HTTP status {status}"
        return f"HTTP status {status}, and not {' or '.join(probe.status)}"
    text = body.decode(errors="replace")
    if probe.body is None or re.search(probe.body, text, re.MULTILINE):
        return None
    return f"the body does not match /{probe.body}/: {_shown(text)}"


async def _events(state: "h11.Connection", reader: asyncio.StreamReader) -> AsyncIterator[object]:
    """What h11 makes of an answer. Raises ValueError or EOFError if it is no proper HTTP."""
    import h11

    beginning = b""
    is_over = False
    while True:
        try:
            event = state.next_event()
        except h11.RemoteProtocolError as error:
            if is_over:
                raise EOFError from error
            raise ValueError(f"the answer is no proper HTTP: {_shown(str(error))}") from error
        if event is not h11.NEED_DATA:
            yield event
            continue
        piece = await reader.read(_PIECE)
        is_over = not piece
        beginning += piece[: len(_BEGINNING) - len(beginning)]
        if not beginning:
            raise ValueError("the connection was closed without an answer")
        # Else h11 would wait for the end of a head that never comes.
        if not _BEGINNING.startswith(beginning):
            raise ValueError("the answer is not HTTP")
        state.receive_data(piece)


def _request(state: "h11.Connection", probe: ReadinessProbe, authorization: str | None) -> bytes:
    """The bytes to send. Raises ValueError for headers that make no request."""
    import h11

    headers = {
        "host": probe.authority,
        "accept": "*/*",
        # A compressed body could not be searched.
        "accept-encoding": "identity",
        "user-agent": "ci-doctor",
    }
    sent = None if probe.sent is None else probe.sent.encode()
    if sent is not None:
        headers["content-type"] = "application/json"
    headers |= {name.lower(): value for name, value in probe.headers}
    if sent is not None:
        headers["content-length"] = str(len(sent))
    if authorization is not None:
        headers["authorization"] = authorization
    # Last, so that no header of the user keeps the connection open.
    headers["connection"] = "close"
    words = [(name.title().encode(), value.encode()) for name, value in headers.items()]
    try:
        target = quote(probe.path, safe=_TARGET)
        events: list[h11.Event] = [h11.Request(method=probe.method, target=target, headers=words)]
        if sent is not None:
            events.append(h11.Data(data=sent))
        return b"".join(state.send(event) or b"" for event in (*events, h11.EndOfMessage()))
    except h11.LocalProtocolError as error:
        raise ValueError(f"the request is no proper HTTP: {error}") from error


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
