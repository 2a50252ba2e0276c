# SPDX-License-Identifier: Apache-2.0
import asyncio
import json
import resource
import socket

import pytest

from ci_doctor.errors import InfraError
from ci_doctor.load.connections import open_client
from ci_doctor.load.sending import Reply, Sender, send_all
from tests.support.canned_server import CannedServer, http, requests

ANSWER = http(json.dumps({"choices": [{"text": "hi"}]}).encode())


async def sent(url: str, count: int = 1) -> list[Reply]:
    kept: list[Reply] = []
    await send_all(Sender(base_url=url, concurrency=2, timeout_s=20), requests(count), kept.append)
    return kept


def test_a_name_is_resolved_and_every_address_of_it_is_tried() -> None:
    async def run() -> list[Reply]:
        async with CannedServer(ANSWER).running() as url:
            return await sent(url.replace("127.0.0.1", "localhost"))

    (reply,) = asyncio.run(run())
    assert reply.error is None


def test_a_name_that_is_none_is_an_error_of_the_connection() -> None:
    (reply,) = asyncio.run(sent("http://nobody.invalid:1"))
    assert str(reply.error).startswith("ConnectError: ")


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_an_ipv6_literal_needs_no_resolver() -> None:
    async def run() -> list[Reply]:
        try:
            server = await asyncio.start_server(CannedServer(ANSWER).serve, "::1", 0)
        except OSError:
            pytest.skip("no IPv6 address")
        async with server:
            return await sent(f"http://[::1]:{server.sockets[0].getsockname()[1]}")

    (reply,) = asyncio.run(run())
    assert reply.error is None


def test_a_server_that_accepts_late_is_waited_for() -> None:
    """A full backlog: the attempt to connect goes on in the background."""

    async def run() -> list[Reply]:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with socket.create_connection(listener.getsockname()) as first:
                sending = asyncio.create_task(sent(url, 4))
                await asyncio.sleep(0)
                listener.setblocking(False)
                async with await asyncio.start_server(
                    CannedServer(ANSWER).serve, sock=listener.dup()
                ):
                    replies = await sending
                    first.close()  # from 3.12 on a server waits for its handlers to end
                    return replies

    assert [reply.error for reply in asyncio.run(run())] == [None] * 4


def test_without_file_descriptors_it_is_our_own_trouble() -> None:
    async def run() -> None:
        async with CannedServer(ANSWER).running() as url:
            # What the first client of a process searches for needs files of its own.
            await open_client(url).aclose()
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            with socket.socket() as highest:
                free = highest.fileno()
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
            try:
                await sent(url)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    with pytest.raises(InfraError, match="open no more files"):
        asyncio.run(run())
