# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: an httpx client that opens a fresh connection for each request.

A server may close an idle connection at any time, and that cannot be told from one that fails; so
none is kept. httpx's own way to a fresh connection costs work (tasks, locks, turns of the event
loop, a pool that looks through all its connections). If forty answers come at once the forty
share that work, and all are sent late.
"""

import importlib.util
import sys
from collections.abc import AsyncIterator

import httpcore
import httpx

from ci_doctor.load.sockets import SocketBackend

# httpx's name for each error of httpcore that a plain HTTP/1.1 connection raises.
_ERRORS: dict[type[Exception], type[httpx.TransportError]] = {
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
}
_RAISED = tuple(_ERRORS)


def open_client(base_url: str) -> httpx.AsyncClient:
    """A client that ignores proxies and opens a connection for each request.

    How many requests it sends at a time, and for how long, the caller decides.
    """
    _skip_searches_for_sniffio()
    # With None httpx uses its own, which can do TLS.
    transport = None
    if base_url.startswith("http://"):
        transport = FreshConnections()
    return httpx.AsyncClient(
        base_url=base_url,
        transport=transport,
        headers={"connection": "close"},
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        trust_env=False,
        timeout=None,  # noqa: S113 - the caller has a deadline for the whole answer
    )


def _skip_searches_for_sniffio() -> None:
    """Without sniffio, httpcore tries to import it six times a request, with a search of the path.

    None in sys.modules makes an import fail at once (Python's language reference, 5.3.1), as it
    would anyway.
    """
    if "sniffio" in sys.modules:
        return
    if importlib.util.find_spec("sniffio") is None:
        sys.modules["sniffio"] = None  # type: ignore[assignment]


class FreshConnections(httpx.AsyncBaseTransport):
    """Sends each request over a connection of its own. Only for http://, without TLS.

    A connection closes with its response, since each request has `Connection: close`.
    """

    def __init__(self) -> None:
        self._backend = SocketBackend()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request`; the body of the response is read later. Raises httpx.TransportError."""
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        plain = httpcore.Request(
            method=request.method,
            url=url,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        # Not httpcore's pool, which looks through all of its connections for each request.
        connection = httpcore.AsyncHTTPConnection(origin=url.origin, network_backend=self._backend)
        try:
            response = await connection.handle_async_request(plain)
        except _RAISED as error:
            raise _translated(error) from error
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response),
            extensions=response.extensions,
        )


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._response.aiter_stream():
                yield part
        except _RAISED as error:
            raise _translated(error) from error

    async def aclose(self) -> None:
        await self._response.aclose()


def _translated(error: Exception) -> httpx.TransportError:
    for raised, name in _ERRORS.items():
        if isinstance(error, raised):
            message = str(error)
            return name(message)
    raise AssertionError(f"no error of a connection: {error!r}")
