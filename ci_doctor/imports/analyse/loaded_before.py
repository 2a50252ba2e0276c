# SPDX-License-Identifier: Apache-2.0
"""Modules loaded before a request, in every run with the same synchronisation. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ci_doctor.imports.analyse.graph import Graph
from ci_doctor.imports.analyse.history import History
from ci_doctor.imports.record.events import Ask, Begin, End, ImportEvent, Site


class LoadedModules(Struct, frozen=True, kw_only=True):
    """Sets of modules, as bits of `Graph`.

    loaded: those that are complete. begun: those that are at least in `sys.modules`.
    """

    loaded: int = 0
    begun: int = 0


class ThreadProgress:
    """What each thread has loaded by those of its events that come before another thread's."""

    def __init__(self, history: History, graph: Graph) -> None:
        self._orders = history.orders
        self._cache: dict[tuple[int, int], LoadedModules] = {}
        self._after: dict[int, dict[int, LoadedModules]] = {}
        for thread, indices in _named_events(history).items():
            events = history.events.get(thread, [])
            states = _states(_EventReplay(graph), events, sorted(indices))
            self._after[thread] = dict(states)

    def before(self, ask: Ask) -> LoadedModules:
        """What the other threads have loaded before `ask`, in every run."""
        # Events between two clock updates share one result: cache by clock.
        key = ask.n, self._orders.index(ask.n, ask.k)
        result = self._cache.get(key)
        if result is None:
            result = self._by_others(ask)
            self._cache[key] = result
        return result

    def _by_others(self, ask: Ask) -> LoadedModules:
        loaded = 0
        begun = 0
        clock = self._orders.clock(ask.n, ask.k)
        for thread, index in clock.items():
            # The thread's own progress is what its lock tree follows.
            if thread == ask.n:
                continue
            state = self._after[thread][index]
            loaded |= state.loaded
            begun |= state.begun
        return LoadedModules(loaded=loaded, begun=begun & ~loaded)


def _named_events(history: History) -> dict[int, set[int]]:
    """By thread, the events that a vector clock names: there are far more events than clocks."""
    named: dict[int, set[int]] = defaultdict(set)
    for order in history.process.orders:
        for thread, index in order.clock.items():
            named[thread].add(index)
    return named


def _states(
    replay: "_EventReplay", events: Sequence[ImportEvent], indices: Sequence[int]
) -> Iterator[tuple[int, LoadedModules]]:
    """The state after each of the events `indices`; both are in ascending order."""
    at = 0
    for index in indices:
        while at < len(events) and events[at].k <= index:
            replay.take(events[at])
            at += 1
        yield index, replay.state()


class _EventReplay:
    """The events of one thread in their order, and what they load.

    A complete outermost import has loaded all that it reaches, whichever thread executed it. Of one
    in progress, only the modules that are complete by themselves count (`inner`): in a cycle the
    import would reach itself.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.loading: list[str] = []
        self.complete = 0
        self.statement = 0  # what the newest outermost statement reaches
        self.site: Site | None = None
        self.inner = 0
        self.begun = 0

    def take(self, event: ImportEvent) -> None:
        """Take the next event."""
        match event:
            case Ask(within=None):
                self._take_outermost(event)
            case Ask() if event.name not in self.loading:
                # Loaded already, unless a `Begin` follows, which takes it out again.
                self.inner |= self.graph.bit(event.name)
            case Begin():
                bit = self.graph.bit(event.name)
                self.loading.append(event.name)
                self.begun |= bit
                self.inner &= ~bit
            case End() if event.name in self.loading:
                self._take_end(event)
            case _:
                pass

    def _take_outermost(self, ask: Ask) -> None:
        # One statement makes several requests. The thread is past them once it makes another one.
        if ask.site != self.site:
            self.complete |= self.statement
            self.statement = 0
            self.site = ask.site
        self.statement |= self.graph.reached(ask.name)

    def _take_end(self, end: End) -> None:
        bit = self.graph.bit(end.name)
        self.loading.remove(end.name)
        if end.status in {"loaded", "found"}:
            self.inner |= bit
        else:  # CPython takes a module whose import fails out of `sys.modules` again
            self.begun &= ~bit
        if not self.loading:
            self.complete |= self.inner
            self.inner = 0

    def state(self) -> LoadedModules:
        """The modules that are loaded or begun after the events taken so far."""
        # While it loads, the newest statement is not through, so only its inner modules count.
        newest = self.statement
        if self.loading:
            newest = self.inner
        loaded = self.complete | newest
        return LoadedModules(loaded=loaded & ~self.graph.unloaded, begun=self.begun)
