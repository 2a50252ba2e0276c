# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from ci_doctor.services.busy_timeout import SHORTEST_ATTEMPT_S, BusyTimeout


def test_a_limit_that_has_not_passed_is_what_is_left() -> None:
    time_limit = BusyTimeout(100.0, waited=lambda: pytest.fail("read too early"))
    assert 0 < time_limit.left_s() <= 100
    assert not time_limit.is_extended


def test_on_a_quiet_machine_a_limit_is_a_limit() -> None:
    assert BusyTimeout(0.0, waited=lambda: 0.0).left_s() == 0
    assert BusyTimeout(0.0, waited=lambda: 0.01).left_s() == 0, "a few milliseconds are nothing"


def test_waits_for_a_cpu_do_not_count() -> None:
    time_limit = BusyTimeout(0.0, waited=lambda: 7.0)
    assert 0 < time_limit.left_s() <= 7
    assert time_limit.is_extended


def test_a_short_limit_grows_by_half_a_minute_and_a_long_one_by_itself_at_most() -> None:
    assert 0 < BusyTimeout(0.0, waited=lambda: 1e6).left_s() <= 30
    assert 0 < BusyTimeout(0.0, waited=lambda: 1e6, hard_limit_s=500.0).left_s() <= 30


def test_a_hard_limit_holds_whatever_waits() -> None:
    assert 0 < BusyTimeout(0.0, waited=lambda: 1e6, hard_limit_s=2.0).left_s() <= 2
    assert BusyTimeout(0.0, waited=lambda: 1e6, hard_limit_s=0.0).left_s() == 0


def test_an_attempt_is_cut_short_at_the_limit_unless_that_is_extended() -> None:
    assert BusyTimeout(100.0, waited=lambda: 0.0).attempt_s(5.0) == 5
    assert (
        BusyTimeout(SHORTEST_ATTEMPT_S / 2, waited=lambda: 0.0).attempt_s(5.0) == SHORTEST_ATTEMPT_S
    )
    time_limit = BusyTimeout(0.0, waited=lambda: 7.0)
    assert time_limit.attempt_s(5.0) == SHORTEST_ATTEMPT_S, "the first look is a quick one"
    assert time_limit.left_s() > 0
    assert time_limit.attempt_s(5.0) == 5


def test_what_is_awaited_gets_the_time_that_it_waited_for_a_cpu() -> None:
    async def run() -> tuple[bool, int]:
        turns = 0
        done = asyncio.get_running_loop().create_future()

        def waited() -> float:
            nonlocal turns
            turns += 1
            if turns == 3:
                done.set_result(None)
            return time_limit.elapsed_s + 0.001  # always a millisecond more than has passed

        time_limit = BusyTimeout(0.0, waited=lambda: max(0.03, waited()))
        return await time_limit.wait(done), turns

    assert asyncio.run(run()) == (True, 3)
