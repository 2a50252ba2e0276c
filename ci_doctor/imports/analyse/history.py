# SPDX-License-Identifier: Apache-2.0
"""The events of a process, put together: which thread loaded what, why, and what each module asks for. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from ci_doctor.imports.analyse.order import Orders
from ci_doctor.imports.record.events import Ask, Begin, Deadlock, End, ImportEvent, Site, Wait
from ci_doctor.imports.record.trace import RecordedProcess


class Load(Struct, frozen=True, kw_only=True):
    """A begin and its end; `end` is None where the trace ends first."""

    begin: Begin
    end: End | None

    def __contains__(self, t: int) -> bool:
        return self.begin.t <= t and (self.end is None or t <= self.end.t)


class History:
    """Indexes over the events of `process`; lists are in the order of the events."""

    def __init__(self, process: RecordedProcess) -> None:
        self.process = process
        self.orders = Orders(process.orders)
        self.events: dict[int, list[ImportEvent]] = defaultdict(list)
        self.entries: dict[int, list[Ask]] = defaultdict(
            list
        )  # asked for while the thread loads nothing
        self.asked: dict[tuple[int, str], list[Ask]] = defaultdict(list)  # by thread and module
        self.inside: dict[str, list[Ask]] = defaultdict(
            list
        )  # asked for while the module is loaded
        self.waits: dict[tuple[int, str], list[Wait]] = defaultdict(list)
        self.deadlocks: list[Deadlock] = []
        for event in process.events:
            self.events[event.n].append(event)
        for events in self.events.values():
            self._take(events)
        self.loads: dict[str, list[Load]] = defaultdict(list)
        for load in sorted(self._loads(), key=lambda load: load.begin.t):
            self.loads[load.begin.name].append(load)
        self.executed = {
            name: found for name in self.loads if (found := [*filter(_executed, self.loads[name])])
        }

    def _take(self, events: list[ImportEvent]) -> None:
        for event in _lock_order(sorted(events, key=lambda event: event.k)):
            if isinstance(event, Ask):
                self.asked[event.n, event.name].append(event)
                (
                    self.entries[event.n] if event.within is None else self.inside[event.within]
                ).append(event)
            elif isinstance(event, Wait):
                self.waits[event.n, event.name].append(event)
            elif isinstance(event, Deadlock):
                self.deadlocks.append(event)

    def _loads(self) -> Iterator[Load]:
        for events in self.events.values():
            begun: dict[str, list[Begin]] = defaultdict(list)
            for event in sorted(events, key=lambda event: event.k):
                if isinstance(event, Begin):
                    begun[event.name].append(event)
                elif isinstance(event, End) and begun[event.name]:
                    yield Load(begin=begun[event.name].pop(), end=event)
            yield from (Load(begin=begin, end=None) for left in begun.values() for begin in left)

    def load_by(self, n: int, name: str) -> Load | None:
        """How thread `n` executed module `name`, if it did."""
        return next((load for load in self.executed.get(name, ()) if load.begin.n == n), None)

    def chain(self, ask: Ask) -> tuple[Site, ...]:
        """The statements from the outermost one of the thread inwards to `ask`."""
        sites = [ask.site]
        seen = {ask.within}
        cause: Ask | None = ask
        while cause is not None and cause.within is not None:
            cause = self._cause(cause)
            if cause is None or (cause.within is not None and cause.within in seen):
                break
            seen.add(cause.within)
            if sites[-1] != cause.site:
                sites.append(cause.site)
        return tuple(reversed(sites))

    def _cause(self, ask: Ask) -> Ask | None:
        """The ask for the module within which `ask` was made, by the same thread: the last one before it."""
        earlier = [
            other for other in self.asked.get((ask.n, ask.within or ""), ()) if other.k < ask.k
        ]
        return earlier[-1] if earlier else None


def _executed(load: Load) -> bool:
    return load.end is None or load.end.status in {"loaded", "failed"}


def _lock_order(events: list[ImportEvent]) -> Iterator[ImportEvent]:
    """`import a.b` is written as asks for `a`, which it hands out, and for `a.b`; the lock of `a.b` is taken first."""
    held_back: Ask | None = None
    for event in events:
        if held_back is not None:
            if (
                isinstance(event, Ask)
                and event.site == held_back.site
                and event.name.startswith(held_back.name + ".")
            ):
                yield event
                yield held_back
                held_back = None
                continue
            yield held_back
            held_back = None
        if isinstance(event, Ask) and event.how == "statement" and not event.names:
            held_back = event
        else:
            yield event
    if held_back is not None:
        yield held_back
