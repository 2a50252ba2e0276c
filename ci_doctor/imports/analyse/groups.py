# SPDX-License-Identifier: Apache-2.0
"""Strongly connected groups of a graph (Tarjan 1972), without recursion: chains of imports are long. Pure."""

from collections.abc import Iterator, Sequence


def groups(targets: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The groups of the nodes 0, 1, …, of which `targets` has the edges; a group comes after all that it leads to."""
    search = _TarjanSearch(targets)
    for start in range(len(targets)):
        if start not in search.index:
            yield from search.from_node(start)


class _TarjanSearch:
    def __init__(self, targets: Sequence[Sequence[int]]) -> None:
        self.targets = targets
        self.index: dict[int, int] = {}
        self.low: dict[int, int] = {}
        self.stack: list[int] = []
        self.is_open: set[int] = set()
        self.work: list[tuple[int, Iterator[int]]] = []

    def enter(self, node: int) -> None:
        self.index[node] = self.low[node] = len(self.index)
        self.stack.append(node)
        self.is_open.add(node)
        self.work.append((node, iter(self.targets[node])))

    def from_node(self, start: int) -> Iterator[list[int]]:
        self.enter(start)
        while self.work:
            node, rest = self.work[-1]
            target = next(rest, None)
            if target is None:
                yield from self.leave()
            elif target not in self.index:
                self.enter(target)
            elif target in self.is_open:
                self.low[node] = min(self.low[node], self.index[target])

    def leave(self) -> Iterator[list[int]]:
        node, _ = self.work.pop()
        if self.work:
            outer = self.work[-1][0]
            self.low[outer] = min(self.low[outer], self.low[node])
        if self.low[node] == self.index[node]:
            at = self.stack.index(node)
            members = self.stack[at:]
            del self.stack[at:]
            self.is_open.difference_update(members)
            yield members
