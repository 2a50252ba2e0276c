# SPDX-License-Identifier: Apache-2.0
import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpcore
import httpx
import pytest

from ci_doctor.load.sending import Reply, Sender, send_all
from tests.support.canned_server import CannedServer, http, requests

ANSWER = http(json.dumps({"choices": [{"text": "hi"}]}).encode())


async def sent(url: str, count: int = 1) -> list[Reply]:
    kept: list[Reply] = []
    await send_all(Sender(base_url=url, concurrency=2, timeout_s=20), requests(count), kept.append)
    return kept


@contextmanager
def closed_port() -> Iterator[int]:
    """One that nobody listens at, and that nobody else gets meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class Counting(CannedServer):
    """Knows how many connections it got; drops those whose number is in `dropped` before any byte of a response."""

    def __init__(self, *dropped: int) -> None:
        super().__init__(ANSWER)
        self.connections = 0
        self.dropped = dropped

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.connections not in self.dropped:
            await super().answer(reader, writer)


def test_each_request_has_a_connection_of_its_own() -> None:
    server = Counting()

    async def run() -> list[Reply]:
        async with server.running() as url:
            return await sent(url, 5)

    assert [reply.error for reply in asyncio.run(run())] == [None] * 5
    assert server.connections == 5


def test_a_fresh_connection_that_the_server_drops_is_an_error_and_is_not_tried_again() -> None:
    server = Counting(2)

    async def run() -> list[Reply]:
        async with server.running() as url:
            return await sent(url, 3)

    kept = asyncio.run(run())
    assert server.connections == 3
    assert len([reply for reply in kept if reply.error is None]) == 2
    assert all(reply.tries == 1 for reply in kept)


def test_nobody_listens() -> None:
    with closed_port() as port:
        (reply,) = asyncio.run(sent(f"http://127.0.0.1:{port}"))
    assert str(reply.error).startswith("ConnectError: ")
    assert reply.status is None


def test_a_base_with_a_path_is_kept() -> None:
    seen = []

    class Remembering(CannedServer):
        async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.readline())
            await super().answer(reader, writer)

    async def run() -> None:
        async with Remembering(ANSWER).running() as url:
            await sent(f"{url}/base/")

    asyncio.run(run())
    assert seen == [b"POST /base/v1/completions HTTP/1.1\r\n"]


def test_a_server_behind_tls_is_still_reached_by_the_usual_transport() -> None:
    async def run() -> None:
        client = Sender(base_url="https://127.0.0.1:1").client()
        async with client:
            with pytest.raises(httpx.ConnectError):
                await client.get("/")

    asyncio.run(run())


def test_no_request_goes_through_a_pool_of_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool looks through all its connections twice a request, and is slow with many."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pool was made")

    monkeypatch.setattr(httpcore.AsyncConnectionPool, "__init__", refuse)

    async def run() -> list[Reply]:
        async with CannedServer(ANSWER).running() as url:
            return await sent(url)

    (reply,) = asyncio.run(run())
    assert reply.error is None


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"", "RemoteProtocolError: Server disconnected"),
        (b"nonsense\r\n\r\n", "RemoteProtocolError: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", "RemoteProtocolError: peer closed"),
    ],
    ids=["nothing", "no HTTP", "a body cut off"],
)
def test_an_error_of_httpcore_has_the_name_that_httpx_gives_it(reply: bytes, error: str) -> None:
    async def run() -> list[Reply]:
        async with CannedServer(reply).running() as url:
            return await sent(url)

    (kept,) = asyncio.run(run())
    assert str(kept.error).startswith(error)
