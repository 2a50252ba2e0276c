# SPDX-License-Identifier: Apache-2.0
"""What happened before what in a process: program order, and the vector clocks that the recorder wrote (Mattern 1989). Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ci_doctor.imports.record.events import ImportEvent, Order

_NOTHING: Mapping[int, int] = MappingProxyType({})


class Orders:
    """The order records of one process."""

    def __init__(self, orders: Iterable[Order]) -> None:
        self._from: dict[int, list[int]] = defaultdict(list)
        self._seen: dict[int, list[Mapping[int, int]]] = defaultdict(list)
        for order in sorted(orders, key=lambda order: (order.n, order.k)):
            self._from[order.n].append(order.k)
            self._seen[order.n].append(order.seen)

    def index(self, n: int, k: int) -> int:
        """Which of the order records of thread `n` holds for its event `k`; -1 for none."""
        return bisect_right(self._from[n], k) - 1 if n in self._from else -1

    def seen(self, n: int, k: int) -> Mapping[int, int]:
        """How many events of each other thread came before event `k` of thread `n`."""
        index = self.index(n, k)
        return self._seen[n][index] if index >= 0 else _NOTHING

    def before(self, first: ImportEvent, second: ImportEvent) -> bool:
        """Whether `first` comes before `second` in every run that keeps what orders the threads."""
        if first.n == second.n:
            return first.k < second.k
        return first.k <= self.seen(second.n, second.k).get(first.n, 0)
