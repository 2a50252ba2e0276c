# SPDX-License-Identifier: Apache-2.0
"""Which modules are loaded, in every run that keeps the order of the threads, when a thread asks for one. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.imports.analyse.graph import Graph
from ci_doctor.imports.analyse.history import History
from ci_doctor.imports.record.events import Ask, Begin, End, ImportEvent


class Settled(Struct, frozen=True, kw_only=True):
    """Sets of modules, as bits of `Graph`: `loaded` ones, and `begun` ones, which are in `sys.modules` at least."""

    loaded: int = 0
    begun: int = 0


NOTHING = Settled()


class ThreadProgress:
    """How far each thread had come after those of its events that come before another thread's."""

    def __init__(self, history: History, graph: Graph) -> None:
        self._orders = history.orders
        self._cache: dict[tuple[int, int], Settled] = {}
        self._after: dict[int, dict[int, Settled]] = {}
        asked_for: dict[int, set[int]] = defaultdict(
            set
        )  # by thread, the events that an order names
        for order in history.process.orders:
            for n, k in order.seen.items():
                asked_for[n].add(k)
        for n, ks in asked_for.items():
            events = sorted(history.events.get(n, ()), key=lambda event: event.k)
            self._after[n] = dict(_states(_EventReplay(graph), events, sorted(ks)))

    def before(self, ask: Ask) -> Settled:
        """What the other threads have settled before `ask` is made, in every run."""
        key = (ask.n, self._orders.index(ask.n, ask.k))
        if key not in self._cache:
            loaded = begun = 0
            for n, k in self._orders.seen(ask.n, ask.k).items():
                state = NOTHING if n == ask.n else self._after[n][k]
                loaded |= state.loaded
                begun |= state.begun
            self._cache[key] = Settled(loaded=loaded, begun=begun & ~loaded)
        return self._cache[key]


def _states(
    walk: "_EventReplay", events: Sequence[ImportEvent], ks: Sequence[int]
) -> Iterator[tuple[int, Settled]]:
    """The state after each of the events `ks`, in their order."""
    at = 0
    for k in ks:
        while at < len(events) and events[at].k <= k:
            walk.take(events[at])
            at += 1
        yield k, walk.state()


class _EventReplay:
    """The events of one thread in their order, and what they settle.

    An import that is complete has loaded all that it reaches, whichever thread executed it. Of one in progress, only the
    modules that are complete by themselves count: in a cycle it would reach itself.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.loading: list[str] = []
        self.complete = 0
        self.statement = 0  # what the newest statement reaches
        self.site: object = None
        self.inner = 0
        self.begun = 0

    def take(self, event: ImportEvent) -> None:
        """Take the next event."""
        match event:
            case Ask(within=None):
                if event.site != self.site:
                    self.complete |= self.statement
                    self.statement, self.site = 0, event.site
                self.statement |= self.graph.reached(event.name)
            case Ask() if event.name not in self.loading:
                self.inner |= self.graph.bits([event.name])
            case Begin():
                self.loading.append(event.name)
                self.begun |= self.graph.bits([event.name])
                self.inner &= ~self.graph.bits([event.name])
            case End() if event.name in self.loading:
                self.loading.remove(event.name)
                if event.status in {"loaded", "found"}:
                    self.inner |= self.graph.bits([event.name])
                else:
                    self.begun &= ~self.graph.bits([event.name])
                if not self.loading:
                    self.complete |= self.inner
                    self.inner = 0
            case _:
                pass

    def state(self) -> Settled:
        """What is settled now."""
        loaded = self.complete | (self.inner if self.loading else self.statement)
        return Settled(loaded=loaded & ~self.graph.unloaded, begun=self.begun)
