# SPDX-License-Identifier: Apache-2.0
import asyncio
import functools
import json

import pytest

from ci_doctor.correctness.collect import collect
from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.errors import InfraError
from ci_doctor.load.sending import Sender
from tests.support.canned_server import CannedServer, http, requests

ANSWER = json.dumps({"choices": [{"text": "hi"}]}).encode()
SAMPLE = functools.partial(Sample, arm="baseline", start=1, pass_=1)


def collected(
    server: CannedServer, count: int = 1, *, concurrency: int = 4, timeout_s: float = 20.0
) -> list[Sample]:
    kept: list[Sample] = []

    async def run() -> None:
        async with server.running() as url:
            sender = Sender(base_url=url, concurrency=concurrency, timeout_s=timeout_s)
            await collect(sender, requests(count), SAMPLE, kept.append)

    asyncio.run(run())
    return kept


def error_of(reply: bytes) -> str:
    (sample,) = collected(CannedServer(reply))
    assert sample.output is None
    assert sample.digest is None
    assert sample.error is not None
    return sample.error


def test_every_request_becomes_one_sample() -> None:
    kept = collected(CannedServer(http(ANSWER)), 9)
    assert sorted(sample.id for sample in kept) == [f"r{number}" for number in range(9)]
    assert {(sample.status, sample.error, sample.empty) for sample in kept} == {(200, None, False)}
    assert len({sample.digest for sample in kept}) == 1


def test_no_more_requests_than_wanted_are_under_way_and_no_fewer() -> None:
    async def make() -> CannedServer:
        return CannedServer(http(ANSWER), hold=3)

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
        (
            http(json.dumps({"choices": [{"text": "a"}] * 2}).encode()),
            "2 choices in the answer, 1 were requested",
        ),
    ],
)
def test_what_is_no_answer_becomes_an_error_in_words(reply: bytes, said: str) -> None:
    assert said in error_of(reply)


def test_a_server_that_is_not_there_is_an_error() -> None:
    kept: list[Sample] = []
    asyncio.run(collect(Sender(base_url="http://127.0.0.1:1"), requests(), SAMPLE, kept.append))
    assert "ConnectError" in (kept[0].error or "")


def test_a_server_that_never_answers_is_given_up() -> None:
    async def make() -> CannedServer:
        return CannedServer(http(ANSWER), hold=2)

    (sample,) = collected(asyncio.run(make()), timeout_s=0.2)
    assert sample.error == "no answer in 0.2 s"


def test_what_cannot_be_kept_ends_it_as_the_error_that_it_is() -> None:
    def full(_: Sample) -> None:
        raise InfraError("no space")

    async def run() -> None:
        async with CannedServer(http(ANSWER)).running() as url:
            await collect(Sender(base_url=url), requests(3), SAMPLE, full)

    with pytest.raises(InfraError, match="no space"):
        asyncio.run(run())
