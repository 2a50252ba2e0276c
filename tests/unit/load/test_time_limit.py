# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import Mapping

import pytest

from ci_doctor.load.time_limit import time_limit
from ci_doctor.system.processes.cpu_wait import CpuWaits


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
