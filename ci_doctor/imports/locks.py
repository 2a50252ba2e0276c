# SPDX-License-Identifier: Apache-2.0
"""Pure. The locks that each thread would take, each within another, if it were the first to import."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ci_doctor.imports.history import History, Load
from ci_doctor.imports.trace import Ask, Begin, End, ImportEvent


def groups(targets: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The strongly connected components of the nodes 0, 1, …; `targets` has the edges of each node.

    A component comes after all components that it leads to.
    """
    search = _TarjanSearch(targets)
    for start in range(len(targets)):
        if start not in search.index:
            yield from search.from_node(start)


class _TarjanSearch:
    """`index`, `low` and `stack` are those of the paper; `work` stands for its recursion."""

    def __init__(self, targets: Sequence[Sequence[int]]) -> None:
        self.targets = targets
        self.index: dict[int, int] = {}
        self.low: dict[int, int] = {}
        self.stack: list[int] = []
        self.on_stack: set[int] = set()
        self.work: list[tuple[int, Iterator[int]]] = []

    def from_node(self, start: int) -> Iterator[list[int]]:
        self.enter(start)
        while self.work:
            node, rest = self.work[-1]
            target = next(rest, None)
            if target is None:
                yield from self.leave()
            # The paper's two cases: an edge into the unknown, and one back into this component.
            elif target not in self.index:
                self.enter(target)
            elif target in self.on_stack:
                self.low[node] = min(self.low[node], self.index[target])

    def enter(self, node: int) -> None:
        index = len(self.index)
        self.index[node] = index
        self.low[node] = index
        self.stack.append(node)
        self.on_stack.add(node)
        # The iterator is where the paper's recursion would continue after a call.
        rest = iter(self.targets[node])
        self.work.append((node, rest))

    def leave(self) -> Iterator[list[int]]:
        node, _ = self.work.pop()
        low = self.low[node]
        if self.work:
            outer, _ = self.work[-1]
            self.low[outer] = min(self.low[outer], low)
        # The node is the first of its component: what lies above it on the stack are the others.
        if low == self.index[node]:
            at = self.stack.index(node)
            members = self.stack[at:]
            del self.stack[at:]
            self.on_stack.difference_update(members)
            yield members


Need = tuple[str, Ask | None]  # None for a submodule's need of its package


class Graph:
    """The modules whose code ran in this process, numbered; a set of them is the bits of an int.

    Ints, because each module reaches up to thousands of others, and unions must be fast. Modules
    that another process loaded before a fork, or the interpreter before the recorder began, are not
    included: no thread takes a lock for them.

    reach: by module, all that it needs, itself included. group: by module, the index of its group
    in `groups`; the modules of one group need each other. grouped: the modules that are in a group
    with others. unloaded: the modules whose every execution failed.
    """

    def __init__(self, history: History) -> None:
        self.names = list(history.executed)
        self.number: dict[str, int] = {}
        for name in self.names:
            self.number[name] = len(self.number)
        # After all are numbered: a module may need one that was executed later.
        self.needs = [tuple(self._needs(name, history)) for name in self.names]
        self.reach = [0] * len(self.names)
        self.group = [-1] * len(self.names)
        self.groups: list[tuple[str, ...]] = []
        self.grouped = 0
        self._find_groups()
        self.unloaded = 0
        for name, loads in history.executed.items():
            if not any(map(_is_loaded, loads)):
                self.unloaded |= self.bit(name)

    def bit(self, name: str) -> int:
        """The set of this one module; empty if it is not known."""
        index = self.number.get(name)
        if index is None:
            return 0
        return 1 << index

    def bits(self, names: Iterable[str]) -> int:
        """The set of `names`, without those that are not known."""
        result = 0
        for name in names:
            result |= self.bit(name)
        return result

    def reached(self, name: str) -> int:
        """What is loaded once `name` is."""
        index = self.number.get(name)
        if index is None:
            return 0
        return self.reach[index] & ~self.unloaded

    def _needs(self, name: str, history: History) -> Iterator[Need]:
        package = name.rpartition(".")[0]
        requested: set[tuple[str, bool]] = set()
        if package in self.number:
            yield package, None
            requested.add((package, True))
        for ask in history.inside.get(name, ()):
            # A package is needed again by a statement: if the submodule's own import of it is
            # skipped, because another thread has begun it, a statement still waits.
            key = ask.name, ask.how == "importlib"
            # A module that imports itself has its own lock already.
            if ask.name not in self.number or ask.name == name:
                continue
            if key not in requested:
                requested.add(key)
                yield ask.name, ask

    def _numbers(self, needs: Iterable[Need]) -> list[int]:
        return [self.number[name] for name, _ in needs]

    def _find_groups(self) -> None:
        targets = [[self.number[name] for name, _ in needs] for needs in self.needs]
        for members in groups(targets):
            self._add_group(members, targets)

    def _add_group(self, members: list[int], targets: Sequence[Sequence[int]]) -> None:
        """Add one group; `groups` yields those that it needs before it."""
        # The modules of a group need each other, so all of them reach the same.
        reach = 0
        for member in members:
            reach |= 1 << member
            self.group[member] = len(self.groups)
            for target in targets[member]:
                reach |= self.reach[target]
        for member in members:
            self.reach[member] = reach
        names = tuple(self.names[member] for member in members)
        self.groups.append(names)
        if len(names) > 1:
            self.grouped |= self.bits(names)


def _is_loaded(load: Load) -> bool:
    return load.end is None or load.end.status == "loaded"


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
        self.site: object = None
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


class LockNode:
    """One module in a lock tree: taken at `at`, released at `done`, both counted in modules.

    ask: the statement that takes it; None for a submodule's need of its package. entry: the
    outermost request of its tree. waits: another thread executes it, which has begun it before in
    every run; this thread takes it after that.
    """

    # There are up to hundreds of thousands of them (`_VISITS` in find_hazards.py).
    __slots__ = ("ask", "at", "done", "entry", "holder", "name", "outermost", "waits")

    def __init__(self, need: Need, holder: "LockNode | None", entry: Ask, at: int) -> None:
        self.name, self.ask = need
        self.holder = holder
        self.outermost: LockNode = self if holder is None else holder.outermost
        self.entry = entry
        self.at = at
        self.done = at
        self.waits = False

    def held(self) -> Iterator["LockNode"]:
        """What the thread holds when it takes this module, innermost first."""
        holder = self.holder
        while holder is not None:
            yield holder
            holder = holder.holder

    def holds(self, other: "LockNode") -> bool:
        """Whether this module is held when `other`, of the same thread, is taken."""
        return self.at < other.at <= self.done

    def asks(self) -> tuple[Ask, ...]:
        """The statements that lead to it, outermost first."""
        asks = [node.ask for node in (self, *self.held()) if node.ask is not None]
        asks.reverse()
        return tuple(asks)


class Forest:
    """The lock trees of thread `n`, one for each of its imports; `taken` has the nodes by name.

    skipping: another thread has just put the packages that submodules need into `sys.modules`, so
    this thread does not wait for them. `skipped` has their names.
    """

    def __init__(self, n: int, *, skipping: bool) -> None:
        self.n = n
        self.skipping = skipping
        self.taken: dict[str, LockNode] = {}
        self.skipped: set[str] = set()


_Work = list[tuple[LockNode, Iterator[Need]]]


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
        forest = Forest(n, skipping=skipping)
        for entry in self.history.entries.get(n, ()):
            self._add_tree(forest, entry)
        return forest

    def _add_tree(self, forest: Forest, entry: Ask) -> None:
        # Depth first with a stack of our own: chains of imports are longer than Python's.
        work: _Work = []
        self._visit(forest, entry, (entry.name, entry), work)
        while work:
            node, needs = work[-1]
            for need in needs:
                if self._visit(forest, entry, need, work):
                    break
            else:
                node.done = len(forest.taken)
                work.pop()

    def _visit(self, forest: Forest, entry: Ask, need: Need, work: _Work) -> bool:
        """Take one module, unless it needs no lock; whether there is something to descend into."""
        name, ask = need
        self.left -= 1
        # A module is taken once: after that it is loaded, and its lock is not needed again.
        if name in forest.taken or not self._is_wanted(name):
            return False
        if self.left < 0:
            self.is_cut = True
            return False
        before = self._loaded_before(forest, need, entry)
        bit = self.graph.bit(name)
        if before.loaded & bit:
            return False
        is_begun = bool(before.begun & bit)
        if ask is None and self._is_skipped(forest, name, is_begun=is_begun):
            return False
        self._take(forest, need, entry, work, waits=is_begun)
        return True

    def _take(self, forest: Forest, need: Need, entry: Ask, work: _Work, *, waits: bool) -> None:
        name, _ = need
        holder = None
        if work:
            holder, _ = work[-1]
        node = LockNode(need, holder, entry, len(forest.taken) + 1)
        node.waits = waits
        forest.taken[name] = node
        # What another thread executes, this one only waits for: it takes none of its needs.
        needs: Iterable[Need] = ()
        if not waits:
            needs = self.graph.needs[self.graph.number[name]]
        work.append((node, iter(needs)))

    def _loaded_before(self, forest: Forest, need: Need, entry: Ask) -> LoadedModules:
        # The time of the thread's own requests is known; of all others, only that of the outermost.
        _, ask = need
        if ask is not None and ask.n == forest.n:
            return self.progress.before(ask)
        return self.progress.before(entry)

    def _is_skipped(self, forest: Forest, package: str, *, is_begun: bool) -> bool:
        """Whether a submodule does not wait for its package, as `sys.modules` has it already."""
        if forest.skipping and not is_begun:
            forest.skipped.add(package)
        return forest.skipping or is_begun

    def _is_wanted(self, name: str) -> bool:
        number = self.graph.number.get(name)
        # Nobody takes the lock of a module that is not executed here.
        if number is None:
            return False
        return bool(self.graph.reach[number] & self.wanted)


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
