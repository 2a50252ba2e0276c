# SPDX-License-Identifier: Apache-2.0
"""Pure. Indexes over the events of a process: who loaded what, and what comes before what."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from ci_doctor.imports.trace import (
    Ask,
    Begin,
    Deadlock,
    End,
    ImportEvent,
    Order,
    RecordedProcess,
    Wait,
)
from ci_doctor.model.facts.import_race import Site

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


class Load(Struct, frozen=True, kw_only=True):
    """A begin and its end; `end` is None if the trace ends first."""

    begin: Begin
    end: End | None

    @property
    def n(self) -> int:
        """The number of the thread that loads."""
        return self.begin.n

    @property
    def name(self) -> str:
        """The module's dotted name."""
        return self.begin.name

    @property
    def ended_ns(self) -> int | None:
        """When it ended; None if that is not recorded."""
        return None if self.end is None else self.end.t

    def __contains__(self, time_ns: int) -> bool:
        """Whether `time_ns` lies within it."""
        if time_ns < self.begin.t:
            return False
        return self.end is None or time_ns <= self.end.t

    def ended_as(self, status: str) -> bool:
        """Whether it ended, with this status."""
        return self.end is not None and self.end.status == status

    @property
    def is_execution(self) -> bool:
        """Whether this thread executed the module; otherwise it was missing or already loaded."""
        return self.end is None or self.end.status in {"loaded", "failed"}


_Key = tuple[int, str]  # a thread and a module


class History:
    """Indexes over the events of `process`; each list is in the order of the events.

    entries: by thread, the requests that it made while it loaded nothing. inside: by module, the
    requests made while it was loaded. asks and waits: by thread and module. executed: by module,
    the executions of its code, in the order of their begins.
    """

    def __init__(self, process: RecordedProcess) -> None:
        self.process = process
        self.orders = Orders(process.orders)
        self.events: dict[int, list[ImportEvent]] = defaultdict(list)
        self.entries: dict[int, list[Ask]] = defaultdict(list)
        self.inside: dict[str, list[Ask]] = defaultdict(list)
        self.asks: dict[_Key, list[Ask]] = defaultdict(list)
        self.waits: dict[_Key, list[Wait]] = defaultdict(list)
        self.deadlocks: list[Deadlock] = []
        self.executed: dict[str, list[Load]] = {}
        for event in process.events:
            self.events[event.n].append(event)
        loads: list[Load] = []
        for events in self.events.values():
            # By number and not by time: two events of a thread may have the same clock reading.
            events.sort(key=lambda event: event.k)
            self._index(events)
            loads += _loads(events)
        for load in sorted(loads, key=lambda load: load.begin.t):
            if load.is_execution:
                self.executed.setdefault(load.name, []).append(load)

    def _index(self, events: list[ImportEvent]) -> None:
        for event in _lock_order(events):
            match event:
                case Ask():
                    self.asks[event.n, event.name].append(event)
                    if event.within is None:
                        self.entries[event.n].append(event)
                    else:
                        self.inside[event.within].append(event)
                case Wait():
                    self.waits[event.n, event.name].append(event)
                case Deadlock():
                    self.deadlocks.append(event)
                case _:
                    pass

    def load_by(self, thread: int, name: str) -> Load | None:
        """How `thread` executed module `name`, if it did."""
        return next((load for load in self.executed.get(name, ()) if load.n == thread), None)

    def asks_before(self, thread: int, name: str, index: int) -> list[Ask]:
        """The requests of `thread` for module `name` before its event `index`."""
        asks = self.asks.get((thread, name), ())
        return [ask for ask in asks if ask.k < index]

    def chain(self, ask: Ask) -> tuple[Site, ...]:
        """The statements from the outermost one of the thread inwards to `ask`."""
        sites = [ask.site]
        visited = {ask.within}
        cause: Ask | None = ask
        while cause is not None and cause.within is not None:
            # The request for the module within which `cause` was made: the last one before it.
            earlier = self.asks_before(cause.n, cause.within, cause.k)
            if not earlier:
                break
            cause = earlier[-1]
            # A module that is reloaded can be within itself.
            if cause.within is not None and cause.within in visited:
                break
            visited.add(cause.within)
            if sites[-1] != cause.site:
                sites.append(cause.site)
        return tuple(reversed(sites))


def _loads(events: list[ImportEvent]) -> Iterator[Load]:
    """The begins of one thread with their ends."""
    # A stack for each module: its code may reload it, or a failed import may be tried again.
    begun: dict[str, list[Begin]] = defaultdict(list)
    for event in events:
        if isinstance(event, Begin):
            begun[event.name].append(event)
        elif isinstance(event, End) and begun[event.name]:
            # The newest: an inner attempt ends before the outer one.
            begin = begun[event.name].pop()
            yield Load(begin=begin, end=event)
    for unfinished in begun.values():
        for begin in unfinished:
            yield Load(begin=begin, end=None)


def _lock_order(events: list[ImportEvent]) -> list[ImportEvent]:
    """The events of one thread, with requests in the order in which CPython takes their locks.

    The recorder writes `import a.b` as a request for `a`, which the statement hands out, and one
    for `a.b`. CPython takes the lock of `a.b` first.
    """
    ordered: list[ImportEvent] = []
    package: Ask | None = None  # the request before, if it may be the first of two
    for event in events:
        ask = event if isinstance(event, Ask) else None
        if ask is not None and package is not None and _is_below(ask, package):
            ordered.insert(-1, ask)
            package = None
            continue
        ordered.append(event)
        package = ask if ask is not None and ask.how == "statement" and not ask.names else None
    return ordered


def _is_below(ask: Ask, package: Ask) -> bool:
    """Whether it is the second of the two requests of one `import a.b`."""
    return ask.site == package.site and ask.name.startswith(f"{package.name}.")
