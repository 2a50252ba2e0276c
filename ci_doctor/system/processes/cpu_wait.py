# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: how long processes were ready to run and had no CPU, and how far that extends a time limit."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ci_doctor.system import clock

# However busy the machine is, a limit grows by no more than itself, or than this if it is short.
_LEAST_EXTENSION_S = 30.0
# A quiet machine makes threads wait for a CPU too, some milliseconds in all.
_NOTABLE_S = 0.02


def extended(limit_s: float, waited_s: float) -> float:
    """`limit_s` seconds, if those who are expected to act had to wait so long for a CPU."""
    if waited_s < _NOTABLE_S:
        return limit_s
    return min(limit_s + waited_s, longest(limit_s))


def longest(limit_s: float) -> float:
    """What a limit can grow to: seconds."""
    return limit_s + max(limit_s, _LEAST_EXTENSION_S)


_NANOSECONDS = 1e9
# Reading the waits of a server with hundreds of threads takes milliseconds.
_FRESH_S = 0.05


class CpuWaits:
    """How long the threads of the processes that `pids` names have waited for a CPU, each in all.

    A thread that sleeps, or waits for a disk or an answer, does not wait for a CPU. Time in which a
    cgroup's CPU quota is used up counts.
    """

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._latest: Mapping[int, float] = {}
        self._read_at = float("-inf")

    def now(self, *, oldest_s: float = 0.0) -> Mapping[int, float]:
        """Seconds by thread; a reading that is at most `oldest_s` seconds old will do."""
        at = clock.now()
        if at - self._read_at >= oldest_s:
            self._latest = dict(_delays(self._named()))
            self._read_at = at
        return self._latest

    def since(self, before: Mapping[int, float]) -> float:
        """The wait since `before` of the thread that has waited longest.

        It is 0 if the kernel does not count.
        """
        longest = 0.0
        for thread, delay in self.now(oldest_s=_FRESH_S).items():
            longest = max(longest, delay - before.get(thread, 0.0))
        return longest

    def _named(self) -> tuple[int, ...]:
        try:
            return tuple(self._pids())
        except OSError:  # no file descriptor is left to look with
            return ()


def _delays(pids: Iterable[int]) -> Iterator[tuple[int, float]]:
    """Each thread of these processes, and the seconds that it has waited since it began."""
    for pid in pids:
        # A process or thread that ends meanwhile has nothing more to wait for.
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - only names are needed
                with contextlib.suppress(OSError, IndexError, ValueError):
                    text = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text()
                    # The second figure: nanoseconds on a run queue (Linux sched-stats.rst).
                    yield int(thread), int(text.split()[1]) / _NANOSECONDS
