# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import Sequence

import pytest

from ci_doctor.services.ports import reserve_port
from ci_doctor.services.probe import wait_until_ready
from ci_doctor.services.spec import Scheme, Target

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


async def probe(answers: Sequence[bytes], scheme: Scheme, limit_s: float) -> tuple[str | None, list[bytes]]:
    """Ask a server that gives `answers` one after the other, the last one for ever."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if scheme is Scheme.HTTP:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answers[min(len(requests), len(answers)) - 1])
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        target = Target(scheme=scheme, host="127.0.0.1", port=port, path="/health?x=1")
        return await wait_until_ready(target, limit_s), requests


@pytest.mark.parametrize("first_line", [b"HTTP/1.1 200 OK", b"HTTP/1.0 204 No Content", b"HTTP/1.1 299"])
def test_an_answer_of_200_to_299_is_ready(first_line: bytes) -> None:
    seen, requests = asyncio.run(probe([first_line + b"\r\n\r\n"], Scheme.HTTP, 30))
    assert seen is None
    assert requests[0].startswith(b"GET /health?x=1 HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_server_that_is_loading_is_asked_again() -> None:
    seen, requests = asyncio.run(probe([BUSY, b"", b"rubbish\n", OK], Scheme.HTTP, 30))
    assert seen is None
    assert len(requests) == 4


def test_proxies_have_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:9")
    assert asyncio.run(probe([OK], Scheme.HTTP, 30))[0] is None


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (BUSY, "HTTP status 503"),
        (b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\n\r\n", "HTTP status 307"),
        (b"", "the connection was closed without an answer"),
        (b"SSH-2.0-OpenSSH\r\n", "the answer is not HTTP"),
        (b"x" * 200_000, "no answer: "),
    ],
)
def test_what_was_seen_last_is_told_when_time_is_up(answer: bytes, told: str) -> None:
    seen, _ = asyncio.run(probe([answer], Scheme.HTTP, 0.1))
    assert (seen or "").startswith(told)


def test_a_server_that_never_answers_costs_no_more_than_the_limit() -> None:
    async def ask() -> str | None:
        silent = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await silent.wait()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            seen = await wait_until_ready(Target(scheme=Scheme.HTTP, host="127.0.0.1", port=port, path="/"), 0.1)
            silent.set()
            return seen

    assert (asyncio.run(ask()) or "").startswith("no answer within")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_closed_port_is_told_as_refused(host: str) -> None:
    port = reserve_port()
    try:
        target = Target(scheme=Scheme.TCP, host=host, port=port.number)
        assert asyncio.run(wait_until_ready(target, 0.05)) == "connection refused"
    finally:
        port.release()


def test_tcp_is_ready_when_it_accepts() -> None:
    assert asyncio.run(probe([b""], Scheme.TCP, 30))[0] is None
