# SPDX-License-Identifier: Apache-2.0
import asyncio
import json
import resource
import socket
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from ci_doctor.errors import InfraError
from ci_doctor.load.sending import Reply, Sender, send_all, time_limit, wait_before_retry
from ci_doctor.system.processes.cpu_wait import CpuWaits
from tests.support.canned_server import CannedServer, http, requests


@pytest.mark.parametrize("status", [200, 400, 404, 408, 500, 502, 503, 504])
def test_what_is_no_request_to_wait_is_not_repeated(status: int) -> None:
    assert wait_before_retry(status, None, 1) is None
    if status != 503:
        assert wait_before_retry(status, "1", 1) is None


def test_waits_double_up_to_a_bound() -> None:
    waits = [wait_before_retry(429, None, tries) for tries in (1, 2, 3, 4, 5, 6, 7, 100_000)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.1),
        ("9" * 5000, float("inf")),
        ("soon", 0.8),
        ("-5", 0.8),
        ("", 0.8),
        ("1.5", 0.8),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_time_that_the_server_names_is_honoured_where_it_can_be_read(
    status: int, header: str, seconds: float
) -> None:
    assert wait_before_retry(status, header, 4) == seconds


class Waits(CpuWaits):
    """One thread, which waits `each_s` seconds between two readings; `fifth` is the fifth."""

    def __init__(self, each_s: float) -> None:
        super().__init__(list)
        self.each_s = each_s
        self.readings = 0
        self.fifth = asyncio.Event()

    def now(self, *, oldest_s: float = 0.0) -> Mapping[int, float]:
        self.readings += 1
        if self.readings == 5:
            self.fifth.set()
        return {1: self.readings * self.each_s}


@pytest.mark.parametrize("counted", [False, True])
def test_a_limit_that_passes_is_a_timeout(counted: bool) -> None:
    async def run() -> None:
        async with time_limit(0.01, Waits(0.0) if counted else None):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        asyncio.run(run())


def test_what_waits_for_a_cpu_gets_more_time() -> None:
    async def run() -> None:
        waits = Waits(0.05)
        async with time_limit(0.0, waits):
            await waits.fifth.wait()  # each reading is an extension

    asyncio.run(run())


def test_work_that_ends_in_time_leaves_no_timer_behind() -> None:
    waits = Waits(0.0)

    async def run() -> None:
        async with time_limit(0.01, waits):
            pass
        await asyncio.sleep(0.03)

    asyncio.run(run())
    assert waits.readings == 1


def test_a_cancellation_is_no_timeout() -> None:
    async def run() -> None:
        async with time_limit(100.0, Waits(0.0)):
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


ANSWER = http(json.dumps({"choices": [{"text": "hi"}]}).encode())


async def sent(url: str, count: int = 1) -> list[Reply]:
    kept: list[Reply] = []
    await send_all(Sender(base_url=url, concurrency=2, timeout_s=20), requests(count), kept.append)
    return kept


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


def test_each_request_has_a_connection_of_its_own_and_no_second_one_if_it_is_dropped() -> None:
    server = Counting(2)

    kept = replies(server, 5)

    assert server.connections == 5
    assert len([reply for reply in kept if reply.error is None]) == 4
    assert all(reply.tries == 1 for reply in kept)


def test_nobody_listens() -> None:
    # Bound, so that nobody else gets the port meanwhile.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        (reply,) = asyncio.run(sent(f"http://127.0.0.1:{held.getsockname()[1]}"))
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
            await Sender(base_url=url).client().aclose()
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


def replies(server: CannedServer, count: int, **how: Any) -> list[Reply]:
    kept: list[Reply] = []

    async def run() -> None:
        async with server.running() as url:
            await send_all(Sender(base_url=url, concurrency=2, **how), requests(count), kept.append)

    asyncio.run(run())
    return kept


def holding(count: int) -> CannedServer:
    async def make() -> CannedServer:
        return CannedServer(ANSWER, hold=count)

    return asyncio.run(make())


def test_an_answer_is_no_error_and_is_not_hung() -> None:
    for reply in replies(CannedServer(ANSWER), 3):
        assert reply.answer is not None
        assert (reply.status, reply.error, reply.hung) == (200, None, False)
        assert reply.sent_at < reply.ended_at


def test_only_what_is_given_up_at_its_own_limit_is_hung() -> None:
    (given_up,) = replies(holding(9), 1, timeout_s=0.2)
    assert given_up.hung
    assert given_up.ended_at - given_up.sent_at >= 0.2
    (refused,) = replies(CannedServer(http(b"busy", "503 Busy")), 1, timeout_s=20.0)
    assert (refused.error, refused.hung) == ("HTTP 503: busy", False)


def test_the_time_of_a_request_begins_when_it_is_sent_not_when_it_waits_for_its_turn() -> None:
    kept = replies(holding(9), 4, timeout_s=0.3)
    assert all(reply.ended_at - reply.sent_at >= 0.3 for reply in kept)
    first_two_over = min(reply.ended_at for reply in kept[:2])
    assert all(reply.sent_at >= first_two_over for reply in kept[2:])
