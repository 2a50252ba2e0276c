# SPDX-License-Identifier: Apache-2.0
"""Pure. The locks that each thread would take, each within another, if it were the first to import."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from ci_doctor.imports.history import History
from ci_doctor.imports.trace import Ask, Begin, End, ImportEvent

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
