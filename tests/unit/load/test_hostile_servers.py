# SPDX-License-Identifier: Apache-2.0
"""Servers that misbehave, over real sockets: an answer is whole or it is an error, and never somebody else's."""

import asyncio
import json
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_doctor.load.requests import Request
from ci_doctor.load.sending import Reply, Sender, send_all
from tests.support.canned_server import http
from tests.support.growth import assert_linear
from tests.unit.load.streams import completions, stream

WHOLE: dict[str, Any] = {
    "id": "cmpl-1",
    "model": "tiny",
    "choices": [{"index": 0, "text": "hé", "finish_reason": "stop", "prompt_token_ids": [1, 2]}],
    "usage": {"prompt_tokens": 2, "completion_tokens": 1},
}
CHUNKS = [{**WHOLE, "usage": None}, {"id": "cmpl-1", "choices": [], "usage": WHOLE["usage"]}]
STREAM = "Content-Type: text/event-stream\r\n"
SSE = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


def body(**changes: Any) -> bytes:
    return json.dumps({**WHOLE, **changes}).encode()


def ask(
    *replies: Sequence[bytes],
    limit_s: float = 20.0,
    n: int = 1,
    comes_again: bool = True,
    streamed: bool = False,
) -> Reply:
    """Ask a server whose connections give `replies` in turn, each in the pieces given; the last one again and again."""
    kept: list[Reply] = []
    turns = iter(replies)
    last = replies[-1]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
        )
        await reader.readexactly(int(length.partition(b":")[2]))
        try:
            for piece in next(turns, last):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            content = {"prompt": "x", "n": n, "stream": streamed}
            request = Request(id="r0", path="/v1/completions", body=content, line=1)
            await send_all(
                Sender(base_url=url, timeout_s=limit_s, comes_again=comes_again),
                [request],
                kept.append,
            )

    asyncio.run(run())
    (reply,) = kept
    return reply


def digest(reply: Reply) -> str:
    assert reply.answer is not None, reply.error
    return reply.answer.digest


def chunked(content: bytes, cuts: Sequence[int], *, end: bytes = b"0\r\n\r\n") -> list[bytes]:
    """An event stream in HTTP chunks that end at `cuts`, each written on its own."""
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    parts = [content[start:stop] for start, stop in pairwise(places)]
    return [SSE.encode(), *(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts), end]


@settings(max_examples=25, deadline=None)
@given(completions(), st.lists(st.integers(1, 3000), max_size=12))
def test_a_stream_is_the_same_answer_wherever_it_is_cut_into_chunks(
    answer: tuple[dict[str, Any], list[dict[str, Any]]], cuts: list[int]
) -> None:
    whole, chunks = answer
    count = len(whole["choices"])
    assert digest(ask(chunked(stream(chunks), cuts), n=count)) == digest(
        ask([http(json.dumps(whole).encode())], n=count)
    )


def test_a_stream_byte_by_byte_is_the_same_answer() -> None:
    content = stream(CHUNKS)
    assert digest(ask(chunked(content, range(len(content))))) == digest(ask([http(body())]))


def test_a_stream_that_was_asked_for_may_come_as_json() -> None:
    # As from LMCache's disagg_proxy_server.py.
    reply = ask([http(stream(CHUNKS))], streamed=True)
    assert digest(reply) == digest(ask([http(body())]))


@pytest.mark.parametrize("first", ["429 Too Many Requests", "503 Busy"])
def test_a_server_that_asks_to_wait_is_asked_again_and_the_tries_are_told(first: str) -> None:
    busy = [[http(b"busy", first, f"Retry-After: {value}\r\n")] for value in ("0", "soon")]
    reply = ask(*busy, [http(body())])
    assert (reply.tries, reply.status, reply.error) == (3, 200, None)
    assert reply.answer is not None
    assert reply.answer.meta["tries"] == 3
    assert reply.ended_at - reply.sent_at >= 0.2
    once = ask([http(body())])
    assert digest(reply) == digest(once)
    assert once.tries == 1
    assert once.answer is not None
    assert "tries" not in once.answer.meta


def test_where_it_is_asked_how_fast_a_server_refuses_later_is_no() -> None:
    reply = ask([http(b"busy", "429 Too Many Requests")], [http(body())], comes_again=False)
    assert (reply.status, reply.error, reply.tries) == (429, "HTTP 429: busy", 1)


def test_an_endless_429_is_an_error_within_the_limit() -> None:
    reply = ask([http(b"busy", "429 Too Many Requests")], limit_s=1.4)
    # On a busy machine the last of them may find nobody who answers in time.
    cut_short = f"no answer in 1.4 s ({reply.tries} tries)"
    assert reply.error in {f"HTTP 429: busy ({reply.tries} tries)", cut_short}
    assert reply.tries <= 4  # at 0, 0.1, 0.3 and 0.7 s; the next one is due at 1.5 s
    assert reply.hung is (reply.error == cut_short)


def test_a_wait_beyond_the_limit_is_not_begun() -> None:
    reply = ask([http(b"", "429 Too Many Requests", "Retry-After: 3600\r\n")], limit_s=60.0)
    assert (reply.error, reply.tries) == ("HTTP 429: ", 1)
    assert reply.ended_at - reply.sent_at < 60.0


@pytest.mark.parametrize("status", ["500 Broken", "502 Gone", "503 Busy", "404 None", "301 Moved"])
def test_every_other_status_is_the_answer(status: str) -> None:
    reply = ask([http(b"no", status)], [http(body())])
    assert (reply.error, reply.tries, reply.answer) == (f"HTTP {status[:3]}: no", 1, None)


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ([http(body()[:-20])], "not JSON"),
        ([http(body())[:-20]], "RemoteProtocolError: peer closed"),
        ([http(b"")], "not JSON"),
        ([b""], "RemoteProtocolError: Server disconnected"),
        ([b"HTTP/1.1 200 OK\r\n\r\n" + body()[:-20]], "not JSON"),
        ([http(stream(CHUNKS)[:-20], headers=STREAM)], "the stream breaks off"),
        ([http(stream(CHUNKS)[:-1], headers=STREAM)], "the stream breaks off"),
        ([http(stream(CHUNKS, done=False), headers=STREAM)], "the stream breaks off"),
        (chunked(stream(CHUNKS), [10], end=b""), "RemoteProtocolError"),
        (chunked(stream([{"choices": [{"text": "h"}]}]), [10]), "without a `finish_reason`"),
        ([http(body(), headers=STREAM)], "the stream breaks off"),
        ([http(stream(CHUNKS))], "not JSON"),
        (
            [http(body(usage={"x": 1}).replace(b'"x": 1', b'"x": 1e999'))],
            "cannot be written as JSON again",
        ),
        ([http(body().replace(b"[1, 2]", b"[1e999]"))], "cannot be written as JSON again"),
        ([http(b'{"a":' * 100_000)], "not JSON"),
        ([b"\x00\x01\x02 nonsense\r\n\r\n"], "RemoteProtocolError: "),
    ],
)
def test_what_is_no_whole_answer_is_an_error_and_never_an_answer(
    replies: list[bytes], why: str
) -> None:
    reply = ask(replies)
    assert reply.answer is None
    assert why in str(reply.error)
    assert not reply.hung


def large(count: int) -> bytes:
    """A chat's answer of `count` tokens with their log probabilities, some 140 bytes each."""
    tokens = [f"token {number}" for number in range(count)]
    entries = [
        {
            "token": token,
            "logprob": -0.123456789,
            "bytes": [1, 2],
            "top_logprobs": [{"token": token, "logprob": -1e-9}],
        }
        for token in tokens
    ]
    message = {"content": " ".join(tokens)}
    choices = [{"index": 0, "message": message, "logprobs": {"content": entries}}]
    return json.dumps({"choices": choices}).encode()


def test_an_answer_of_ten_megabytes_is_an_answer() -> None:
    content = large(72_000)
    assert len(content) > 10_000_000
    assert ask([http(content)], limit_s=600.0).answer is not None


def test_a_large_answer_costs_time_in_proportion() -> None:
    contents = {count: large(count) for count in (4_000, 16_000)}
    assert_linear(lambda count: ask([http(contents[count])], limit_s=600.0), 4_000)


def test_a_large_answer_costs_memory_in_proportion() -> None:
    content = large(8_000)
    tracemalloc.start()
    try:
        reply = ask([http(content)], limit_s=600.0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reply.answer is not None
    assert most < 25 * len(content)


def test_an_answer_without_end_is_given_up_at_the_bound() -> None:
    reply = ask([b"HTTP/1.1 200 OK\r\n\r\n", *[b" " * 1_000_000] * 100])
    assert reply.error == "ReadError: an answer of more than 64 MiB"


def test_a_body_that_never_stops_coming_does_not_outlast_the_limit() -> None:
    reply = ask(
        [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            *[b"1\r\n \r\n" * 10_000] * 2000,
        ],
        limit_s=0.5,
    )
    assert reply.hung
    assert reply.error == "no answer in 0.5 s"


def test_headers_without_end_are_an_error() -> None:
    reply = ask([b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"y" * 60_000 + b"\r\n"] * 50])
    assert str(reply.error).startswith("RemoteProtocolError")
