# SPDX-License-Identifier: Apache-2.0
import asyncio
import json
from typing import Any

from ci_doctor.load.sending import Reply, Sender, send_all
from tests.support.canned_server import CannedServer, http, requests

ANSWER = http(json.dumps({"choices": [{"text": "hi"}]}).encode())


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
    assert refused.error == "HTTP 503: busy"
    assert not refused.hung


def test_the_time_of_a_request_begins_when_it_is_sent_not_when_it_waits_for_its_turn() -> None:
    kept = replies(holding(9), 4, timeout_s=0.3)
    assert all(reply.ended_at - reply.sent_at >= 0.3 for reply in kept)
    first_two_over = min(reply.ended_at for reply in kept[:2])
    assert all(reply.sent_at >= first_two_over for reply in kept[2:])
