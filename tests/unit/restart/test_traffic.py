# SPDX-License-Identifier: Apache-2.0
import asyncio
import json

import pytest

from ci_doctor.load.sending import Reply, Sender
from ci_doctor.model.facts.restart_check import Phase
from ci_doctor.restart.traffic import Traffic, naming_any, one_pass
from tests.support.canned_server import CannedServer, http, requests

ANSWER = http(json.dumps({"choices": [{"text": "hi"}]}).encode())


class Kept(list[tuple[Phase, Reply]]):
    """What a load has got so far."""

    def __init__(self) -> None:
        super().__init__()
        self._grew = asyncio.Event()

    def append(self, each: tuple[Phase, Reply]) -> None:
        super().append(each)
        self._grew.set()

    async def grown_to(self, size: int) -> None:
        while len(self) < size:
            self._grew.clear()
            await self._grew.wait()


def traffic(url: str, kept: Kept, *, reached_at: int, timeout_s: float = 20.0) -> Traffic:
    sender = Sender(base_url=url, concurrency=2, timeout_s=timeout_s)
    return Traffic(
        sender, requests(6), lambda phase, reply: kept.append((phase, reply)), reached_at=reached_at
    )


def test_a_pass_of_no_requests_takes_no_time() -> None:
    sender = Sender(base_url="http://127.0.0.1:1")
    assert asyncio.run(one_pass(sender, (), lambda _: None)) == 0.0


@pytest.mark.parametrize("at", [1, 3, 6])
def test_the_fraction_is_reached_when_so_many_requests_are_done(at: int) -> None:
    async def run() -> int:
        kept = Kept()
        async with CannedServer(ANSWER).running() as url, traffic(url, kept, reached_at=at) as load:
            await load.reached()
            return len(kept)

    assert at <= asyncio.run(run()) < at + 2


def test_with_0_it_is_reached_as_soon_as_the_first_are_under_way() -> None:
    async def run() -> int:
        kept = Kept()
        async with (
            CannedServer(ANSWER, hold=9).running() as url,
            traffic(url, kept, reached_at=0) as load,
        ):
            await load.reached()
            return len(kept)

    assert asyncio.run(run()) == 0


def test_one_pass_is_sent_until_it_may_go_on_and_then_the_file_begins_anew() -> None:
    async def run() -> Kept:
        kept = Kept()
        async with CannedServer(ANSWER).running() as url, traffic(url, kept, reached_at=6) as load:
            await load.reached()
            assert len(kept) == 6
            load.phase = Phase.OUTAGE
            load.go_on()
            await kept.grown_to(9)
            await load.drain()
        return kept

    kept = asyncio.run(run())
    assert sorted(reply.id for _, reply in kept[:6]) == [f"r{number}" for number in range(6)]
    assert {reply.id for _, reply in kept[6:8]} == {"r0", "r1"}
    assert [phase for phase, _ in kept[:6]] == [Phase.KILL] * 6
    assert {phase for phase, _ in kept[6:]} == {Phase.OUTAGE}


def test_draining_waits_for_what_hangs_and_no_longer_than_its_own_limit() -> None:
    async def run() -> Kept:
        kept = Kept()
        server = CannedServer(ANSWER, hold=9)
        async with server.running() as url, traffic(url, kept, reached_at=0, timeout_s=0.3) as load:
            await load.reached()
            load.phase = Phase.OUTAGE
            await load.drain()
        return kept

    kept = asyncio.run(run())
    assert [(phase, reply.hung) for phase, reply in kept] == [(Phase.KILL, True)] * 2


def test_the_time_of_a_pass_is_that_of_its_requests() -> None:
    async def run() -> tuple[float, Kept]:
        kept = Kept()
        async with CannedServer(ANSWER).running() as url:
            sender = Sender(base_url=url, concurrency=2)
            seconds = await one_pass(
                sender, requests(6), lambda reply: kept.append((Phase.AFTER, reply))
            )
        return seconds, kept

    seconds, kept = asyncio.run(run())
    replies = [reply for _, reply in kept]
    assert seconds == max(reply.ended_at for reply in replies) - min(
        reply.sent_at for reply in replies
    )


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("k5 v5", True),
        ("lost: k5 v5", True),
        ("k5: v5 was acknowledged, and nothing is there", True),
        ("k55 v5", False),
        ("k5 is there", False),
        ("ok", False),
    ],
)
def test_a_line_of_a_verifier_names_an_acknowledged_write_or_proves_nothing(
    line: str, names: bool
) -> None:
    assert naming_any([line], ["k4 v4", "k5 v5"]) == ([line] if names else [])
