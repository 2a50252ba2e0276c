# SPDX-License-Identifier: Apache-2.0
"""Acts on sockets: sends one HTTP/1.1 request to a service, and tells what the answer lacks."""

import asyncio
import contextlib
import functools
import ipaddress
import re
import socket
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci_doctor.model.words import shortened
from ci_doctor.services.busy_timeout import aside
from ci_doctor.services.ready import ReadinessProbe

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
    exchange = _Exchange(reader)
    writer.write(exchange.request(probe, authorization))
    await writer.drain()
    status = await exchange.status()
    if not probe.accepts(status):
        # Everybody expects a 2xx; only what was configured needs to be repeated.
        if probe.status == ("2xx",):
            return f"HTTP status {status}"
        return f"HTTP status {status}, and not {' or '.join(probe.status)}"
    if probe.body is None:
        return None
    text = (await exchange.body()).decode(errors="replace")
    if re.search(probe.body, text, re.MULTILINE):
        return None
    return f"the body does not match /{probe.body}/: {_shown(text)}"


class _Exchange:
    """One request and its answer. h11 knows HTTP/1.1, and is a tenth of what a client takes to load."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        # Late: most starts of ci-doctor ask nobody.
        import h11

        self._h11 = h11
        self._reader = reader
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD)
        self._beginning = b""
        self._is_over = False

    def request(self, probe: ReadinessProbe, authorization: str | None) -> bytes:
        """The bytes to send. Raises ValueError for headers that make no request without a body."""
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
        try:
            request = self._h11.Request(
                method="GET",
                target=quote(probe.path, safe=_TARGET),
                headers=[
                    (name.title().encode(), value.encode()) for name, value in headers.items()
                ],
            )
            head = self._state.send(request) or b""
            return head + (self._state.send(self._h11.EndOfMessage()) or b"")
        except self._h11.LocalProtocolError as error:
            raise ValueError(f"the request is no proper HTTP: {error}") from error

    async def status(self) -> int:
        """That of the final answer, or of one after which no other comes."""
        while True:
            event = await self._event()
            # An interim response (RFC 9110, 15.2): the final one follows it.
            if isinstance(event, self._h11.Response):
                return int(event.status_code)
            # After it h11 is paused for good: the server speaks another protocol.
            if isinstance(event, self._h11.InformationalResponse) and event.status_code == 101:
                return 101

    async def body(self) -> bytes:
        """Its first MiB."""
        body = bytearray()
        while len(body) < _LARGEST_BODY:
            event = await self._event()
            if not isinstance(event, self._h11.Data):
                break
            body += event.data
        return bytes(body[:_LARGEST_BODY])

    async def _event(self) -> object:
        while True:
            try:
                event = self._state.next_event()
            except self._h11.RemoteProtocolError as error:
                if self._is_over:
                    raise EOFError from error
                raise ValueError(f"the answer is no proper HTTP: {_shown(str(error))}") from error
            if event is not self._h11.NEED_DATA:
                return event
            piece = await self._reader.read(_PIECE)
            self._is_over = not piece
            self._beginning += piece[: len(_BEGINNING) - len(self._beginning)]
            if not self._beginning:
                raise ValueError("the connection was closed without an answer")
            # Else h11 would wait for the end of a head that never comes.
            if not _BEGINNING.startswith(self._beginning):
                raise ValueError("the answer is not HTTP")
            self._state.receive_data(piece)


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
