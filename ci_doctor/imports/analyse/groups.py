# SPDX-License-Identifier: Apache-2.0
"""Strongly connected components of a graph (Tarjan 1972). Pure.

Without recursion: chains of imports are longer than Python's stack.
"""

from collections.abc import Iterator, Sequence


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
