# SPDX-License-Identifier: Apache-2.0
"""Which event of a process comes first in every run with the same synchronisation. Pure.

From program order within a thread, and vector clocks between threads (Mattern 1989).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ci_doctor.imports.record.events import ImportEvent, Order

# By thread, how many of its events came before.
_Clock = Mapping[int, int]
_NOTHING: _Clock = MappingProxyType({})


class Orders:
    """The vector clocks of one process."""

    def __init__(self, orders: Iterable[Order]) -> None:
        # By thread: the events from which on a clock holds, and beside them the clocks.
        self._from: dict[int, list[int]] = defaultdict(list)
        self._clocks: dict[int, list[_Clock]] = defaultdict(list)
        # Ascending, as the bisection below needs it.
        in_order = sorted(orders, key=lambda order: (order.n, order.k))
        for order in in_order:
            self._from[order.n].append(order.k)
            self._clocks[order.n].append(order.clock)

    def index(self, n: int, k: int) -> int:
        """Which of the clocks of thread `n` holds for its event `k`; -1 for none."""
        if n not in self._from:
            return -1
        return bisect_right(self._from[n], k) - 1

    def clock(self, n: int, k: int) -> _Clock:
        """How many events of each other thread came before event `k` of thread `n`."""
        index = self.index(n, k)
        if index < 0:
            return _NOTHING
        return self._clocks[n][index]

    def before(self, first: ImportEvent, second: ImportEvent) -> bool:
        """Whether `first` comes before `second` in every run with the same synchronisation."""
        if first.n == second.n:
            return first.k < second.k
        clock = self.clock(second.n, second.k)
        return first.k <= clock.get(first.n, 0)
