# SPDX-License-Identifier: Apache-2.0
"""Acts on timers: a time limit for a request, which a busy machine does not use up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ci_doctor.system.processes.cpu_wait import CpuWaits, extended

# Each request reads the waits at its start, and a thousand may start in a second.
_OLDEST_S = 1.0


@contextlib.asynccontextmanager
async def time_limit(limit_s: float, waits: CpuWaits | None = None) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but seconds in which those of `waits` had no CPU do not count.

    Without `waits` all seconds count. Raises TimeoutError.
    """
    if waits is None:
        async with asyncio.timeout(limit_s):
            yield
        return
    loop = asyncio.get_running_loop()
    began = loop.time()
    before = waits.now(oldest_s=_OLDEST_S)
    timer: asyncio.TimerHandle

    def check() -> None:
        nonlocal timer
        end = began + extended(limit_s, waits.since(before))
        if end > loop.time():
            timer = loop.call_at(end, check)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        timer = loop.call_at(began + limit_s, check)
        try:
            yield
        finally:
            timer.cancel()
