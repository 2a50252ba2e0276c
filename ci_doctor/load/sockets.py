# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: plain non-blocking sockets as a backend of httpcore.

httpcore's default backend takes some ten turns of the event loop for a connection. Here a request
on its way out takes no turn at all if the server accepts at once.
"""

import asyncio
import errno
import os
import select
import socket
from collections.abc import Iterable
from typing import Any

import httpcore

_HELD_AT_MOST = 1 << 16


class SocketBackend(httpcore.AsyncNetworkBackend):
    """Opens TCP connections; no TLS."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - httpcore's signature
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        """Raises httpcore.ConnectError if no address of the host accepts."""
        try:
            addresses = await _addresses(host, port)
            connection = await _connect_any(addresses)
        except OSError as error:
            # The OSError stays as its cause: it distinguishes a lack of file descriptors of our
            # own from a server that does not answer.
            raise httpcore.ConnectError(str(error)) from error
        return _SocketStream(connection)


class _SocketStream(httpcore.AsyncNetworkStream):
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._held = b""

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109, ARG002
    ) -> bytes:
        try:
            if self._held:
                await self.write(b"")
            data = await self._loop.sock_recv(self._connection, max_bytes)
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        # sock_recv takes no turn of the loop while data is there: deadlines and other requests
        # must have theirs.
        if len(data) == max_bytes:
            await asyncio.sleep(0)
        return data

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109, ARG002
    ) -> None:
        """Send `buffer`; the head of a request is held until its body follows.

        So most requests are one packet. httpcore does not write at all at the end of a request
        without a body; `read` sends what is held then.
        """
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
    """Family and address of a host; a literal needs no resolver and no turn of the loop."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port))]
    loop = asyncio.get_running_loop()
    resolved = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses: list[tuple[int, Any]] = []
    for family, _, _, _, address in resolved:
        addresses.append((family, address))
    return addresses


async def _connect_any(addresses: list[tuple[int, Any]]) -> socket.socket:
    """The first address that accepts; raises the OSError of the last one if none does."""
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
        # Or the last packet of a request may wait for the server's ACK (Nagle's algorithm).
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = connection.connect_ex(address)
        if code == errno.EINPROGRESS and _is_writable(connection):
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code == errno.EINPROGRESS:
            # Continues the attempt under way: a second connect(2) reports how it went, or that it
            # still goes on.
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
    """Whether an attempt to connect is over, well or not. Loopback connects within connect_ex."""
    poller = select.poll()
    poller.register(connection, select.POLLOUT)
    return bool(poller.poll(0))
