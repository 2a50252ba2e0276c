# SPDX-License-Identifier: Apache-2.0
"""The locks a thread would take, each within another, if it were the first to import. Pure.

CPython's `_find_and_load("p.q")` takes the lock of `p.q`, imports `p` unless `sys.modules` has it,
and executes `p.q`, all under that lock. What the code of `p.q` imports is taken within it. So each
module is taken once, and the locks held at that time are its ancestors in a tree, the lock tree of
Goodlock (Havelund 2000).
"""

from collections.abc import Iterable, Iterator

from ci_doctor.imports.analyse.graph import Graph, Need
from ci_doctor.imports.analyse.history import History
from ci_doctor.imports.analyse.loaded_before import LoadedModules, ThreadProgress
from ci_doctor.imports.record.events import Ask


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
