# SPDX-License-Identifier: Apache-2.0
"""Pure. Where the literals of a rule set stand in a block, by an Aho-Corasick automaton.

A verbose test runner marks every test: millions of lines say that one began or passed. Such a mark
matters only near a line that looks like a failure, which it may take back. So marks that stand in
ordinary lines are looked for near the other literals only.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from ahocorasick_rs import BytesAhoCorasick, Implementation

from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.ordinary_lines import ORDINARY_LINES
from ci_doctor.diagnosis.reading.log_text import Block
from ci_doctor.diagnosis.rule_set import RuleSet

# From a block to (index of a literal, offset of its first byte) for every place where a literal
# stands, also where two overlap; in no fixed order.
Engine = Callable[[bytes], Sequence[tuple[int, int]]]
# (position in the block, index of the literal)
Place = tuple[int, int]
MakeEngine = Callable[[Sequence[bytes]], Engine]

# The roles of marks.
MARKS = frozenset({Role.RUN_BEGIN, Role.RUN_PASSED})
_NEAR_BYTES = 64 * 1024
# A fast engine takes long to make: from about this size of a log on it is worth it.
_LARGE_BYTES = 24 * 1024 * 1024


def engine_for_size(size: int) -> MakeEngine:
    """What makes the engine with the shortest time in all for a log of `size` bytes."""
    return quick_engine if size < _LARGE_BYTES else fast_engine


def fast_engine(literals: Sequence[bytes]) -> Engine:
    """An engine whose time depends on the size of the block and on its matches alone.

    The literals are distinct and not empty.
    """
    return _engine(literals, Implementation.DFA)


def quick_engine(literals: Sequence[bytes]) -> Engine:
    """The same, ready in a small part of the time; it reads 1.5 times as long."""
    return _engine(literals, Implementation.ContiguousNFA)


def _engine(literals: Sequence[bytes], implementation: Implementation) -> Engine:
    # Overlapping matches cost nothing more than the first of them.
    automaton = BytesAhoCorasick(literals, implementation=implementation)

    def engine(block: bytes) -> list[tuple[int, int]]:
        matches = automaton.find_matches_as_indexes(block, overlapping=True)
        return [(literal, start) for literal, start, _ in matches]

    return engine


class LiteralSearch:
    """The literals of `rules`, in two engines that `make_engine` makes."""

    def __init__(self, rules: RuleSet, make_engine: MakeEngine = fast_engine) -> None:
        self._literals = rules.literals
        self._make_engine = make_engine
        ordinary = "\n".join(ORDINARY_LINES).encode()
        self._rare: list[int] = []
        self._frequent: list[int] = []
        for index, literal in enumerate(rules.literals):
            is_mark = all(rules.rules[rule].role in MARKS for rule in rules.rules_of[index])
            if is_mark and literal in ordinary:
                self._frequent.append(index)
            else:
                self._rare.append(index)

    def prepare(self) -> None:
        """Make the engines now, which otherwise the first block waits for."""
        self._engine_for_rare(b"")
        self._engine_for_frequent(b"")

    def places(self, block: Block) -> list[Place]:
        """The places that count in `block`, sorted."""
        places = []
        for literal, position in self._engine_for_rare(block.content):
            if block.first <= position < block.last:
                places.append((position, self._rare[literal]))
        places.sort()
        if not places or not self._frequent:
            return places
        places += list(self._frequent_places(block, places))
        places.sort()
        return places

    def _frequent_places(self, block: Block, others: Sequence[Place]) -> Iterator[Place]:
        for start, end in _windows(block, others):
            for literal, position in self._engine_for_frequent(block.content[start:end]):
                yield start + position, self._frequent[literal]

    @cached_property
    def _engine_for_rare(self) -> Engine:
        return self._make_engine([self._literals[index] for index in self._rare])

    @cached_property
    def _engine_for_frequent(self) -> Engine:
        return self._make_engine([self._literals[index] for index in self._frequent])


def _windows(block: Block, places: Sequence[Place]) -> Iterator[tuple[int, int]]:
    """What is near the sorted `places`, as ranges that do not overlap."""
    start = end = block.first
    for position, _ in places:
        if position - _NEAR_BYTES > end:
            if end > start:
                yield start, end
            start = position - _NEAR_BYTES
        end = min(block.last, position + _NEAR_BYTES)
    if end > start:
        yield start, end
