# SPDX-License-Identifier: Apache-2.0
"""Reads the clock and /proc: waits up to a time limit that a busy machine extends, or up to a death."""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from ci_doctor.system import clock
from ci_doctor.system.processes.cpu_wait import CpuWaits, extended, longest

T = TypeVar("T")
# Shorter than this, the last attempt would fail for lack of time of its own.
SHORTEST_ATTEMPT_S = 0.1


def no_processes() -> Iterable[int]:
    """Return no process: only the CPU waits of ci-doctor itself count."""
    return ()


class BusyTimeout:
    """A time limit, extended by the longest CPU wait of any watched thread, up to `hard_limit_s`.

    `limit_s` seconds count from now. The threads are those of the processes that `pids` returns.
    ci-doctor counts too: if it gets no CPU, it cannot observe. With `hard_limit_s` None, the limit
    can double, or grow by 30 s if that is longer. `waited` returns the longest wait in seconds;
    None reads it from /proc.
    """

    def __init__(
        self,
        limit_s: float,
        pids: Callable[[], Iterable[int]] = no_processes,
        *,
        hard_limit_s: float | None = None,
        waited: Callable[[], float] | None = None,
    ) -> None:
        self.limit_s = limit_s
        self.is_extended = False
        self._began = clock.now()
        self._longest_s = longest(limit_s)
        if hard_limit_s is not None:
            self._longest_s = min(self._longest_s, max(limit_s, hard_limit_s))
        waits = all_waits(pids)
        before = {} if waited else waits.now()
        self._waited = waited or (lambda: waits.since(before))

    @property
    def elapsed_s(self) -> float:
        """Seconds since the time limit began."""
        return clock.now() - self._began

    def left_s(self) -> float:
        """Seconds left, 0 if the time is up. A further CPU wait may make them grow again."""
        elapsed_s = self.elapsed_s
        if elapsed_s < self.limit_s:
            return self.limit_s - elapsed_s
        # Only now, because reading the waits of many threads is not free.
        allowed_s = min(extended(self.limit_s, self._waited()), self._longest_s)
        self.is_extended = allowed_s > elapsed_s
        return max(0.0, allowed_s - elapsed_s)

    def attempt_s(self, longest_s: float) -> float:
        """Seconds that one attempt may take, `longest_s` at most.

        It is cut short at the limit. Once the limit is extended, the machine is busy, and an
        attempt has its full length: a shorter one would fail for lack of a CPU.
        """
        if self.is_extended:
            return min(longest_s, max(self._longest_s - self.elapsed_s, SHORTEST_ATTEMPT_S))
        return min(longest_s, max(self.limit_s - self.elapsed_s, SHORTEST_ATTEMPT_S))

    async def sleep(self) -> None:
        """Return when the time is up."""
        await self.wait(asyncio.get_running_loop().create_future())

    async def wait(self, future: "asyncio.Future[Any]") -> bool:
        """Wait until `future` is done or the time is up; return whether it is done."""
        while not future.done():
            left_s = self.left_s()
            if left_s <= 0:
                break
            await asyncio.wait({future}, timeout=left_s)
        return future.done()


def all_waits(pids: Callable[[], Iterable[int]]) -> CpuWaits:
    """The CPU waits of these processes and of ci-doctor itself.

    ci-doctor counts too: if it gets no CPU, it cannot observe.
    """
    return CpuWaits(lambda: (os.getpid(), *pids()))


async def aside(function: Callable[[], T]) -> T:
    """What `function` returns or raises, from a thread that nobody waits for at the end.

    The end of an event loop waits for the threads of its own: one that hangs (a name server that
    does not answer, a wedged driver) would delay the news of a death.
    """
    answer: concurrent.futures.Future[T] = concurrent.futures.Future()
    # From here on nobody can cancel it, so that its thread may always answer.
    answer.set_running_or_notify_cancel()

    def call() -> None:
        try:
            answer.set_result(function())
        except Exception as error:  # noqa: BLE001 - it is raised again by whoever waits
            answer.set_exception(error)

    threading.Thread(target=call, daemon=True, name="ci-doctor-aside").start()
    return await asyncio.wrap_future(answer)


async def before_death(
    death: "asyncio.Future[Any]", *work: Coroutine[Any, Any, T]
) -> "list[asyncio.Task[T]]":
    """Do all of `work` at once, until it is done, one of it raises, or `death` is set.

    Returns its tasks, all of them ended: what was not done in time is cancelled, and no error of it
    goes unread.
    """
    tasks = [asyncio.create_task(each) for each in work]

    def cancel(_: object = None) -> None:
        for task in tasks:
            task.cancel()

    # A done callback, because waiting on `death` itself would cancel it with us.
    death.add_done_callback(cancel)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        death.remove_done_callback(cancel)
        # If we are cancelled ourselves, the work must not go on behind us.
        cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return tasks
