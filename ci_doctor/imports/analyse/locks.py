# SPDX-License-Identifier: Apache-2.0
"""Two threads that each hold a module lock which the other one needs. Pure.

This is lock-order analysis with gate locks (Goodlock, Havelund 2000), over the locks that each
thread would take if it were the first to import.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from ci_doctor.imports.analyse.forest import Forest, LockNode
from ci_doctor.imports.analyse.graph import Graph


class Crossing(Struct, frozen=True, kw_only=True):
    """Thread `one` takes `needs_one` while it holds `has_one`; thread `two` the other way round.

    So `has_one` and `needs_two` are the same module, and so are `has_two` and `needs_one`. length:
    how many modules both threads hold then. A person follows the shortest most easily.
    """

    one: Forest
    two: Forest
    has_one: LockNode
    needs_one: LockNode
    has_two: LockNode
    needs_two: LockNode
    length: int


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


def crossings(
    one: Forest, two: Forest, graph: Graph, budget: ComparisonBudget
) -> Iterator[Crossing]:
    """All crossings in which both threads can be at the same time.

    `one` waits for the packages that it needs, `two` may skip them.
    """
    for needs_one, has_two in _taken_by_both(one, two, graph):
        for has_one in needs_one.held():
            if not budget.take(1):
                return
            needs_two = two.taken.get(has_one.name)
            # The other way round: `two` must take it while it holds what `one` needs.
            if needs_two is None or not has_two.holds(needs_two):
                continue
            length, can_meet = _meeting(needs_one, needs_two, one, two)
            # Counted after the fact: the depth is not known before.
            budget.take(length)
            if can_meet:
                yield Crossing(
                    one=one,
                    two=two,
                    has_one=has_one,
                    needs_one=needs_one,
                    has_two=has_two,
                    needs_two=needs_two,
                    length=length,
                )


def _taken_by_both(one: Forest, two: Forest, graph: Graph) -> Iterator[tuple[LockNode, LockNode]]:
    """The modules that both threads take and no gate lock protects."""
    for node_one in one.taken.values():
        node_two = two.taken.get(node_one.name)
        # Only the modules of a cycle can be taken in opposite orders.
        is_in_cycle = bool(graph.grouped & graph.bit(node_one.name))
        if node_two is None or not is_in_cycle:
            continue
        if not _share_gate(node_one, node_two):
            yield node_one, node_two


def _share_gate(one: LockNode, two: LockNode) -> bool:
    """Whether both are taken within the same outermost module: its lock separates the threads."""
    # The gate is not the wanted module itself: that one is what they may fight for.
    if one.outermost is one or two.outermost is two:
        return False
    return one.outermost.name == two.outermost.name


def _meeting(
    needs_one: LockNode, needs_two: LockNode, one: Forest, two: Forest
) -> tuple[int, bool]:
    """How many modules were compared, and whether the two threads can meet there.

    They cannot if a lock that both hold separates them, or if one of them has already loaded what
    the other one holds. If they can, the number is that of the modules that both hold.
    """
    held_one = {node.name for node in needs_one.held()}
    held_two = []
    for node in needs_two.held():
        held_two.append(node.name)
        if node.name in held_one or _is_done(one, node.name, needs_one.at):
            return len(held_one) + len(held_two), False
    length = len(held_one) + len(held_two)
    for name in held_one:
        if _is_done(two, name, needs_two.at):
            return length, False
    if two.skipping:
        return length, skips_into(two, [needs_two.name, *held_two], held_one)
    return length, True


def _is_done(forest: Forest, name: str, at: int) -> bool:
    node = forest.taken.get(name)
    if node is None:
        return False
    return node.done < at


def skips_into(forest: Forest, chain: Iterable[str], held: AbstractSet[str]) -> bool:
    """Whether a module of `chain` is in a package that the other thread, holding `held`, loads.

    Only packages that `forest` skipped count: it did not wait for those.
    """
    for name in chain:
        package = name.rpartition(".")[0]
        if package in held and package in forest.skipped:
            return True
    return False
