# SPDX-License-Identifier: Apache-2.0
"""Two threads that each hold a module lock which the other needs.

This is lock-order analysis with gate locks (Goodlock, Havelund 2000), over the locks that each thread would take if it came
first. Pure.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from ci_doctor.imports.analyse.forest import Forest, LockNode
from ci_doctor.imports.analyse.graph import Graph


class Crossing(Struct, frozen=True, kw_only=True):
    """Thread `one` takes `needs_one` while it holds `has_one`; thread `two` takes them the other way round.

    So `has_one` and `needs_two` are the same module, and so are `has_two` and `needs_one`. length: how many modules both
    hold then; the shorter, the easier it is to see.
    """

    one: Forest
    two: Forest
    has_one: LockNode
    needs_one: LockNode
    has_two: LockNode
    needs_two: LockNode
    length: int


class ComparisonBudget:
    """How many comparisons may still be made in all; `are_short` once some were not made."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.are_short = False

    def take(self, count: int) -> bool:
        """Take `count` of them, if there are as many."""
        if count > self.left:
            self.are_short = True
            return False
        self.left -= count
        return True


def crossings(
    one: Forest, two: Forest, graph: Graph, steps: ComparisonBudget
) -> Iterator[Crossing]:
    """All that can meet; `one` waits for packages that it needs, `two` may skip them."""
    for needs_one in one.taken.values():
        has_two = two.taken.get(needs_one.name)
        group = graph.group[graph.number[needs_one.name]]
        if has_two is None or len(graph.groups[group]) < 2 or same_gate(needs_one, has_two):
            continue
        for has_one in needs_one.held():
            if not steps.take(1):
                return
            needs_two = two.taken.get(has_one.name)
            if needs_two is None or not has_two.holds(needs_two):
                continue
            length = _meeting(needs_one, needs_two, one, two)
            steps.take(abs(length))
            if length > 0:
                yield Crossing(
                    one=one,
                    two=two,
                    has_one=has_one,
                    needs_one=needs_one,
                    has_two=has_two,
                    needs_two=needs_two,
                    length=length,
                )


def same_gate(one: LockNode, two: LockNode) -> bool:
    """Whether both are taken within the same outermost module: its lock keeps the two threads apart."""
    return (
        one.outermost is not one
        and two.outermost is not two
        and one.outermost.name == two.outermost.name
    )


def _meeting(needs_one: LockNode, needs_two: LockNode, one: Forest, two: Forest) -> int:
    """How many modules both threads hold when they meet; as a negative number where they cannot.

    They cannot where a lock that both hold keeps them apart, and where one has already loaded what the other holds.
    """
    held_one = {node.name for node in needs_one.held()}
    for count, node in enumerate(needs_two.held(), start=1):
        if node.name in held_one or _is_done(one, node.name, needs_one.at):
            return -len(held_one) - count
    length = len(held_one) + sum(1 for _ in needs_two.held())
    if any(_is_done(two, name, needs_two.at) for name in held_one):
        return -length
    if two.skipping:
        chain = [needs_two.name, *(node.name for node in needs_two.held())]
        return length if skips_into(two, chain, held_one) else -length
    return length


def _is_done(forest: Forest, name: str, at: int) -> bool:
    node = forest.taken.get(name)
    return node is not None and node.done < at


def skips_into(forest: Forest, chain: Iterable[str], held: AbstractSet[str]) -> bool:
    """Whether one of `chain` is in a package that it did not wait for because the other thread, which has `held`, loads it."""
    packages = {name.rpartition(".")[0] for name in chain}
    return any(package in held for package in packages & forest.skipped)
