# SPDX-License-Identifier: Apache-2.0
import asyncio
import functools
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from ci_doctor.correctness.collect import Sender, collect, parse_metrics, read_metrics
from ci_doctor.correctness.requests import Request
from ci_doctor.correctness.samples import Sample
from ci_doctor.errors import InfraError

ANSWER = json.dumps({"choices": [{"text": "hi"}]}).encode()
SAMPLE = functools.partial(Sample, arm="baseline", start=1, pass_=1)


def http(content: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{headers}\r\n"
    return head.encode() + content


class Server:
    """Reads a request, then writes `reply` and closes; counts those that are under way."""

    def __init__(self, reply: bytes, *, hold: int = 0) -> None:
        self.reply = reply
        self.hold = hold
        self.under_way = self.most = 0
        self.full = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.under_way >= self.hold:
            self.full.set()
        try:
            await self.answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        if self.hold:
            await self.full.wait()
        self.under_way -= 1
        writer.write(self.reply)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self.full.set()  # from 3.12 on a server waits for its handlers to end


def requests(count: int = 1) -> Sequence[Request]:
    return [Request(id=f"r{number}", path="/v1/completions", body={"prompt": "x"}, line=1) for number in range(count)]


def collected(server: Server, count: int = 1, *, concurrency: int = 4, timeout_s: float = 20.0) -> list[Sample]:
    kept: list[Sample] = []

    async def run() -> None:
        async with server.running() as url:
            sender = Sender(base_url=url, concurrency=concurrency, timeout_s=timeout_s)
            await collect(sender, requests(count), SAMPLE, kept.append)

    asyncio.run(run())
    return kept


def error_of(reply: bytes) -> str:
    (sample,) = collected(Server(reply))
    assert sample.output is None
    assert sample.digest is None
    assert sample.error is not None
    return sample.error


def test_every_request_becomes_one_sample() -> None:
    kept = collected(Server(http(ANSWER)), 9)
    assert sorted(sample.id for sample in kept) == [f"r{number}" for number in range(9)]
    assert {(sample.status, sample.error, sample.empty) for sample in kept} == {(200, None, False)}
    assert len({sample.digest for sample in kept}) == 1


def test_no_more_requests_than_wanted_are_under_way_and_no_fewer() -> None:
    async def make() -> Server:
        return Server(http(ANSWER), hold=3)

    server = asyncio.run(make())
    collected(server, 9, concurrency=3)
    assert server.most == 3


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"", "RemoteProtocolError: Server disconnected"),
        (b"nonsense\r\n\r\n", "RemoteProtocolError"),
        (http(ANSWER)[:-3], "RemoteProtocolError: peer closed connection"),
        (http(b"<html>"), "not JSON"),
        (http(b"no", "500 Broken"), "HTTP 500: no"),
        (http(b"\xff\x00", "404 Not Found"), "HTTP 404: \ufffd\x00"),
        (http(b"", "307 Elsewhere", "Location: /x\r\n"), "HTTP 307"),
        (http(b"nonsense", headers="Content-Encoding: gzip\r\n"), "DecodingError"),
        (http(json.dumps({"choices": [{"text": "a"}] * 2}).encode()), "2 choices in the answer, 1 were asked for"),
    ],
)
def test_what_is_no_answer_becomes_an_error_in_words(reply: bytes, said: str) -> None:
    assert said in error_of(reply)


def test_a_server_that_is_not_there_is_an_error() -> None:
    kept: list[Sample] = []
    asyncio.run(collect(Sender(base_url="http://127.0.0.1:1"), requests(), SAMPLE, kept.append))
    assert "ConnectError" in (kept[0].error or "")


def test_a_server_that_never_answers_is_given_up() -> None:
    async def make() -> Server:
        return Server(http(ANSWER), hold=2)

    (sample,) = collected(asyncio.run(make()), timeout_s=0.2)
    assert sample.error == "no answer in 0.2 s"


def test_what_cannot_be_kept_ends_it_as_the_error_that_it_is() -> None:
    def full(_: Sample) -> None:
        raise InfraError("no space")

    async def run() -> None:
        async with Server(http(ANSWER)).running() as url:
            await collect(Sender(base_url=url), requests(3), SAMPLE, full)

    with pytest.raises(InfraError, match="no space"):
        asyncio.run(run())


def test_metrics_are_summed_over_labels() -> None:
    text = """
# HELP hits of the cache
# TYPE hits counter
hits{engine="0",path="{a}"} 3
hits{engine="1"} 4 1700000000
plain 2.5
broken x
lonely
"""
    assert parse_metrics(text) == {"hits": 7.0, "plain": 2.5}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [(http(b"hits 3\n"), {"hits": 3.0}), (http(b"hits 3", "404 No"), None), (b"", None), (http(b""), {})],
)
def test_metrics_that_cannot_be_read_are_not_metrics_that_are_not_there(
    reply: bytes, expected: dict[str, float] | None
) -> None:
    async def run() -> dict[str, float] | None:
        async with Server(reply).running() as url:
            return await read_metrics(url)

    assert asyncio.run(run()) == expected
