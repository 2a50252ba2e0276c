# SPDX-License-Identifier: Apache-2.0
"""What locks a thread would take, one within the other, if it came first to all that it imports.

CPython's `_find_and_load("p.q")` takes the lock of `p.q`, imports `p` unless that is in `sys.modules`, and executes `p.q`,
all under that lock; what the code of `p.q` imports is taken within it. So each module is taken once, and what is held when
it is taken are its ancestors in a tree. Pure.
"""

from collections.abc import Iterator

from ci_doctor.imports.analyse.graph import Graph, Need
from ci_doctor.imports.analyse.history import History
from ci_doctor.imports.analyse.settled import ThreadProgress
from ci_doctor.imports.record.events import Ask


class LockNode:
    """One module in a tree: taken at `at` by `ask` (None: a submodule's need of its package), released at `done`.

    waits: another thread, which has begun before in every run, executes it; this one takes it after that.
    """

    __slots__ = ("ask", "at", "done", "entry", "holder", "name", "outermost", "waits")

    def __init__(self, need: Need, holder: "LockNode | None", entry: Ask, at: int) -> None:
        self.name, self.ask = need
        self.holder = holder
        self.outermost: LockNode = holder.outermost if holder is not None else self
        self.entry = entry
        self.at = self.done = at
        self.waits = False

    def held(self) -> Iterator["LockNode"]:
        """What the thread holds when it takes this one, innermost first."""
        holder = self.holder
        while holder is not None:
            yield holder
            holder = holder.holder

    def holds(self, other: "LockNode") -> bool:
        """Whether this one is held when `other`, of the same thread, is taken."""
        return self.at < other.at <= self.done

    def asks(self) -> tuple[Ask, ...]:
        """The statements that lead to it, outermost first."""
        found = [node.ask for node in (self, *self.held()) if node.ask is not None]
        return tuple(reversed(found))


class Forest:
    """The trees of thread `n`, one for each of its imports.

    skipping: where a submodule needs its package, another thread has just put that into `sys.modules`: it is not waited
    for, and `skipped` has its name.
    """

    def __init__(self, n: int, *, skipping: bool) -> None:
        self.n = n
        self.skipping = skipping
        self.taken: dict[str, LockNode] = {}
        self.skipped: set[str] = set()


_Work = list[tuple[LockNode, Iterator[Need]]]


class ForestBuilder:
    """Grows the forests of a process, as far as they reach a module of `wanted` (bits), within `budget` steps in all."""

    def __init__(self, history: History, graph: Graph, wanted: int, budget: int) -> None:
        self.graph = graph
        self.progress = ThreadProgress(history, graph)
        self.history = history
        self.wanted = wanted
        self.left = budget
        self.is_cut = False

    def grow(self, n: int, *, skipping: bool = False) -> Forest:
        """The forest of thread `n`."""
        forest = Forest(n, skipping=skipping)
        for entry in self.history.entries.get(n, ()):
            self._plant(forest, entry)
        return forest

    def _plant(self, forest: Forest, entry: Ask) -> None:
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
        number = self.graph.number.get(name)
        self.left -= 1
        if number is None or name in forest.taken or not self.graph.reach[number] & self.wanted:
            return False
        if self.left < 0:
            self.is_cut = True
            return False
        # What the thread itself has asked for was asked at that time; of the rest only the time of the outermost is known.
        settled = self.progress.before(ask if ask is not None and ask.n == forest.n else entry)
        if settled.loaded >> number & 1:
            return False
        is_begun = bool(settled.begun >> number & 1)
        if ask is None and (forest.skipping or is_begun):
            if not is_begun:
                forest.skipped.add(name)
            return False
        node = LockNode(need, work[-1][0] if work else None, entry, len(forest.taken) + 1)
        node.waits = is_begun
        forest.taken[name] = node
        work.append((node, iter(() if is_begun else self.graph.needs[number])))
        return True
