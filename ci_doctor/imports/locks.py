# SPDX-License-Identifier: Apache-2.0
"""Pure. What happened before what in a process, and the locks that each thread would take if it were the first to import."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

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
        # The second of the two requests of one `import a.b`.
        if (
            ask is not None
            and package is not None
            and ask.site == package.site
            and ask.name.startswith(f"{package.name}.")
        ):
            ordered.insert(-1, ask)
            package = None
            continue
        ordered.append(event)
        package = ask if ask is not None and ask.how == "statement" and not ask.names else None
    return ordered


Need = tuple[str, Ask | None]  # None for a submodule's need of its package


class Graph:
    """The modules whose code ran in this process; a set of them is the bits of an int.

    Ints, because each module reaches up to thousands of others, and unions must be fast. Modules
    that another process loaded before a fork, or the interpreter before the recorder began, are not
    included: no thread takes a lock for them.

    reach: by module, all that it needs, itself included. Modules that need each other reach the
    same: they are a group. grouped: the modules that are in a group with others. unloaded: the
    modules whose every execution failed.
    """

    def __init__(self, history: History) -> None:
        self.bits = {name: 1 << number for number, name in enumerate(history.executed)}
        self.needs = {name: self._needs(name, history) for name in self.bits}
        self.reach = reach(
            self.bits, {name: [need for need, _ in needs] for name, needs in self.needs.items()}
        )
        sizes = Counter(self.reach.values())
        self.grouped = self.union(name for name, all_ in self.reach.items() if sizes[all_] > 1)
        self.unloaded = self.union(
            name
            for name, loads in history.executed.items()
            if all(load.ended_as("failed") for load in loads)
        )

    def union(self, names: Iterable[str]) -> int:
        """The set of `names`, without those that are not known."""
        result = 0
        for name in names:
            result |= self.bits.get(name, 0)
        return result

    def _needs(self, name: str, history: History) -> tuple[Need, ...]:
        package = name.rpartition(".")[0]
        needs: dict[tuple[str, bool], Need] = {}
        if package in self.bits:
            needs[package, True] = package, None
        for ask in history.inside.get(name, ()):
            # A module that imports itself has its own lock already. A package is needed again by a
            # statement: if the submodule's own import of it is skipped, because another thread has
            # begun it, a statement still waits.
            if ask.name in self.bits and ask.name != name:
                needs.setdefault((ask.name, ask.how == "importlib"), (ask.name, ask))
        return tuple(needs.values())


def reach(bits: Mapping[str, int], needs: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """By module, all that it needs, itself included; `bits` has the set of each one alone.

    Sweeps to and fro, until nothing is new: most needs lead in one direction.
    """
    reached = dict(bits)
    names = list(bits)
    is_new = True
    while is_new:
        is_new = False
        names.reverse()
        for name in names:
            all_ = reached[name]
            for need in needs[name]:
                all_ |= reached[need]
            is_new = is_new or all_ != reached[name]
            reached[name] = all_
    return reached


# Sets of modules: those that are complete, and those that are at least in `sys.modules`.
LoadedModules = tuple[int, int]


class ThreadProgress:
    """What each thread has loaded by those of its events that come before another thread's."""

    def __init__(self, history: History, graph: Graph) -> None:
        self._orders = history.orders
        self._before: dict[tuple[int, int], LoadedModules] = {}
        # The events that a vector clock names: there are far more events than clocks.
        named: dict[int, set[int]] = defaultdict(set)
        for order in history.process.orders:
            for thread, index in order.clock.items():
                named[thread].add(index)
        self._after: dict[int, dict[int, LoadedModules]] = {
            thread: _states(graph, history.events.get(thread, ()), sorted(indices))
            for thread, indices in named.items()
        }

    def before(self, ask: Ask) -> LoadedModules:
        """What the other threads have loaded before `ask`, in every run."""
        # Events between two clock updates share one result.
        key = ask.n, self._orders.index(ask.n, ask.k)
        if key not in self._before:
            loaded = begun = 0
            for thread, index in self._orders.clock(ask.n, ask.k).items():
                # The thread's own progress is what its lock tree follows.
                if thread != ask.n:
                    its_loaded, its_begun = self._after[thread][index]
                    loaded |= its_loaded
                    begun |= its_begun
            self._before[key] = loaded, begun & ~loaded
        return self._before[key]


def _states(
    graph: Graph, events: Sequence[ImportEvent], indices: Sequence[int]
) -> dict[int, LoadedModules]:
    """The state of a thread after each of its events `indices`, which are in ascending order."""
    replay = _EventReplay(graph)
    states = {}
    at = 0
    for index in indices:
        while at < len(events) and events[at].k <= index:
            replay.take(events[at])
            at += 1
        states[index] = replay.state()
    return states


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
        self.site: object = None
        self.inner = 0
        self.begun = 0

    def take(self, event: ImportEvent) -> None:
        """Take the next event."""
        match event:
            case Ask(within=None):
                # One statement makes several requests. The thread is past them once it makes
                # another one.
                if event.site != self.site:
                    self.complete |= self.statement
                    self.statement = 0
                    self.site = event.site
                self.statement |= self.graph.reach.get(event.name, 0)
            case Ask() if event.name not in self.loading:
                # Loaded already, unless a `Begin` follows, which takes it out again.
                self.inner |= self.graph.bits.get(event.name, 0)
            case Begin():
                bit = self.graph.bits.get(event.name, 0)
                self.loading.append(event.name)
                self.begun |= bit
                self.inner &= ~bit
            case End() if event.name in self.loading:
                self._take_end(event)
            case _:
                pass

    def _take_end(self, end: End) -> None:
        bit = self.graph.bits.get(end.name, 0)
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
        loaded = self.complete | (self.inner if self.loading else self.statement)
        return loaded & ~self.graph.unloaded, self.begun


class LockNode(Struct, eq=False, kw_only=True):
    """One module in a lock tree of thread `n`: taken at `at`, released at `done`, counted in modules.

    ask: the statement that takes it; None for a submodule's need of its package. entry: the
    outermost request of its tree, which is of the module that holds all others. waits: another
    thread executes it, which has begun it before in every run; this thread takes it after that.
    """

    n: int
    name: str
    ask: Ask | None
    holder: "LockNode | None"
    entry: Ask
    at: int
    done: int
    waits: bool

    def held(self) -> Iterator["LockNode"]:
        """What the thread holds when it takes this module, innermost first."""
        holder = self.holder
        while holder is not None:
            yield holder
            holder = holder.holder


class Forest(Struct, kw_only=True):
    """The lock trees of thread `n`, one for each of its imports; `taken` has the nodes by name.

    skipping: another thread has just put the packages that submodules need into `sys.modules`, so
    this thread does not wait for them. `skipped` has their names.
    """

    n: int
    skipping: bool
    taken: dict[str, LockNode] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)


class ForestBuilder:
    """Builds the forests of a process, as far as they reach a module of `wanted` (bits).

    budget: how many needs it visits in all; `is_cut` once it has stopped for that.
    """

    def __init__(self, history: History, graph: Graph, wanted: int, budget: int) -> None:
        self.graph = graph
        self.progress = ThreadProgress(history, graph)
        self.history = history
        self.wanted = wanted
        self.left = budget
        self.is_cut = False

    def build(self, n: int, *, skipping: bool = False) -> Forest:
        """The forest of thread `n`."""
        forest = Forest(n=n, skipping=skipping)
        for entry in self.history.entries.get(n, ()):
            # Depth first with a stack of our own: chains of imports are longer than Python's.
            outermost: Need = entry.name, entry
            work: list[tuple[LockNode | None, Iterator[Need]]] = [(None, iter([outermost]))]
            while work:
                holder, needs = work[-1]
                need = next(needs, None)
                if need is not None:
                    node = self._taken(forest, need, holder, entry)
                    if node is not None:
                        # What another thread executes, this one only waits for.
                        work.append((node, iter(() if node.waits else self.graph.needs[node.name])))
                    continue
                work.pop()
                if holder is not None:
                    holder.done = len(forest.taken)
        return forest

    def _taken(
        self, forest: Forest, need: Need, holder: LockNode | None, entry: Ask
    ) -> LockNode | None:
        """The lock of a needed module; None if the thread takes none for it."""
        name, ask = need
        self.left -= 1
        # A module is taken once: after that it is loaded. Nobody takes the lock of one that is not
        # executed here.
        if name in forest.taken or not self.graph.reach.get(name, 0) & self.wanted:
            return None
        if self.left < 0:
            self.is_cut = True
            return None
        # The time of the thread's own requests is known; of all others, only that of the outermost.
        is_own = ask is not None and ask.n == forest.n
        loaded, begun = self.progress.before(ask if ask is not None and is_own else entry)
        bit = self.graph.bits[name]
        waits = bool(begun & bit)
        if loaded & bit:
            return None
        # A submodule does not wait for its package if `sys.modules` has that already.
        if ask is None and (forest.skipping or waits):
            if not waits:
                forest.skipped.add(name)
            return None
        at = len(forest.taken) + 1
        node = LockNode(
            n=forest.n, name=name, ask=ask, holder=holder, entry=entry, at=at, done=at, waits=waits
        )
        forest.taken[name] = node
        return node


class ComparisonBudget:
    """How many comparisons may still be made; `is_exhausted` once one was not made."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.is_exhausted = False

    def take(self, count: int) -> bool:
        """Take `count` of them, if that many are left."""
        if count > self.left:
            self.is_exhausted = True
            return False
        self.left -= count
        return True
