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
    """Each thread holds a module that the other one wants.

    So `first_holds` and `second_wants` are the same module, and so are `second_holds` and
    `first_wants`. depth: locks held by both threads; shorter ones are reported first.
    """

    first_thread: Forest
    second_thread: Forest
    first_holds: LockNode
    first_wants: LockNode
    second_holds: LockNode
    second_wants: LockNode
    depth: int


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
    first: Forest, second: Forest, graph: Graph, budget: ComparisonBudget
) -> Iterator[Crossing]:
    """All crossings in which both threads can be at the same time.

    `first` waits for the packages that it needs, `second` may skip them.
    """
    for first_wants, second_holds in _taken_by_both(first, second, graph):
        for first_holds in first_wants.held():
            if not budget.take(1):
                return
            second_wants = second.taken.get(first_holds.name)
            # The other way round: `second` must take it while it holds what `first` needs.
            if second_wants is None or not second_holds.holds(second_wants):
                continue
            depth, can_meet = _meeting(first_wants, second_wants, first, second)
            # Counted after the fact: the depth is not known before.
            budget.take(depth)
            if can_meet:
                yield Crossing(
                    first_thread=first,
                    second_thread=second,
                    first_holds=first_holds,
                    first_wants=first_wants,
                    second_holds=second_holds,
                    second_wants=second_wants,
                    depth=depth,
                )


def _taken_by_both(
    first: Forest, second: Forest, graph: Graph
) -> Iterator[tuple[LockNode, LockNode]]:
    """The modules that both threads take and no gate lock protects."""
    for first_node in first.taken.values():
        second_node = second.taken.get(first_node.name)
        # Only the modules of a cycle can be taken in opposite orders.
        is_in_cycle = bool(graph.grouped & graph.bit(first_node.name))
        if second_node is None or not is_in_cycle:
            continue
        if not _share_gate(first_node, second_node):
            yield first_node, second_node


def _share_gate(first: LockNode, second: LockNode) -> bool:
    """Whether both are taken within the same outermost module: its lock separates the threads."""
    # The gate is not the wanted module itself: that one is what they may fight for.
    if first.outermost is first or second.outermost is second:
        return False
    return first.outermost.name == second.outermost.name


def _meeting(
    first_wants: LockNode, second_wants: LockNode, first: Forest, second: Forest
) -> tuple[int, bool]:
    """How many modules were compared, and whether the two threads can meet there.

    They cannot if a lock that both hold separates them, or if one of them has already loaded what
    the other one holds. If they can, the number is that of the modules that both hold.
    """
    first_held = {node.name for node in first_wants.held()}
    second_held = []
    for node in second_wants.held():
        second_held.append(node.name)
        if node.name in first_held or _is_done(first, node.name, first_wants.at):
            return len(first_held) + len(second_held), False
    depth = len(first_held) + len(second_held)
    for name in first_held:
        if _is_done(second, name, second_wants.at):
            return depth, False
    if second.skipping:
        return depth, skips_into(second, [second_wants.name, *second_held], first_held)
    return depth, True


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
