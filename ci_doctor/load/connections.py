# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: httpx over plain non-blocking sockets, a connection for each request.

A server may close an idle connection at any time, which cannot be told from one that fails; so none is kept. What a
fresh one costs in httpx's default backend (tasks, locks and some ten turns of the event loop) is not waiting but work,
and where forty answers come at once the forty share it: all are sent late. Here a request on its way out takes no turn
at all where the server accepts at once, so each is sent as soon as its turn comes.
"""

import asyncio
import errno
import importlib.util
import os
import select
import socket
import ssl
import sys
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

_HELD_AT_MOST = 1 << 16


def open_client(base_url: str) -> httpx.AsyncClient:
    """A client that ignores proxies and opens a connection for each request; how many at a time is the caller's matter."""
    _spare_a_search()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(
        base_url=base_url,
        transport=_Transport() if base_url.startswith("http://") else None,
        headers={"connection": "close"},
        limits=limits,
        trust_env=False,
        timeout=None,  # noqa: S113 - the caller's deadline is for the whole answer, not for each read
    )


def _spare_a_search() -> None:
    """Where sniffio is not installed, httpcore tries to import it six times a request, each a search of the whole path.

    None in sys.modules makes an import fail at once (Python's language reference, 5.3.1), as it would anyway.
    """
    if "sniffio" not in sys.modules and importlib.util.find_spec("sniffio") is None:
        sys.modules["sniffio"] = None  # type: ignore[assignment]


class _Transport(httpx.AsyncHTTPTransport):
    """httpx's own transport over our sockets. Only for http://, without TLS."""

    def __init__(self) -> None:
        # A context without certificates: reading them takes longer than a hundred requests, and nothing is encrypted.
        super().__init__(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False)
        self._pool = _NoPool()


class _NoPool(httpcore.AsyncConnectionPool):
    """What looks like a pool and keeps nothing: a pool looks through all its connections twice a request.

    A connection closes itself with its response, since each request says `Connection: close`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._backend = _Backend()

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        connection = httpcore.AsyncHTTPConnection(
            origin=request.url.origin, network_backend=self._backend
        )
        return await connection.handle_async_request(request)


class _Backend(httpcore.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - httpcore's own signature; the caller's deadline holds
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        """Raises httpcore.ConnectError where no address of the host accepts."""
        try:
            return _Stream(await _connect_any(await _addresses(host, port)))
        except OSError as error:
            # Raised in here: the pool takes the cause away, and what is left to tell our own trouble by is the context.
            raise httpcore.ConnectError(str(error)) from error


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._held = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109, ARG002
        try:
            if self._held:
                await self.write(b"")
            data = await self._loop.sock_recv(self._connection, max_bytes)
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        if len(data) == max_bytes:
            await asyncio.sleep(
                0
            )  # more is there at once: deadlines and other requests must have their turn
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109, ARG002
        """Heads are held until the body follows; httpcore writes nothing at all where a request ends."""
        self._held += buffer
        if buffer and len(self._held) < _HELD_AT_MOST:
            return
        held, self._held = self._held, b""
        try:
            await self._loop.sock_sendall(self._connection, held)
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._connection.close()

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002
        return None


async def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    """Family and address of a host; a literal needs no resolver and no turn."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port))]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


async def _connect_any(addresses: list[tuple[int, Any]]) -> socket.socket:
    """The first that accepts; raises OSError, of the last one, where none does."""
    *others, last = addresses
    for family, address in others:
        try:
            return await _connect(family, address)
        except OSError:
            continue
    return await _connect(*last)


async def _connect(family: int, address: Any) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = connection.connect_ex(address)
        if code == errno.EINPROGRESS and _is_writable(connection):
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code == errno.EINPROGRESS:
            # Takes up the attempt under way: a second connect says how it went, or that it still goes on.
            await asyncio.get_running_loop().sock_connect(connection, address)
        else:
            _check(code)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(code: int) -> None:
    if code:
        raise OSError(code, os.strerror(code))


def _is_writable(connection: socket.socket) -> bool:
    """Whether an attempt to connect is over, well or not. Loopback connects while connect_ex runs."""
    poller = select.poll()
    poller.register(connection, select.POLLOUT)
    return bool(poller.poll(0))
