# SPDX-License-Identifier: Apache-2.0
"""Pure. Where the literals of a rule set stand in a block.

A verbose test runner marks every test: millions of lines say that one began or passed. Such a mark
matters only near a line that looks like a failure, which it may take back. So marks that stand in
ordinary lines are looked for near the other literals only.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.ordinary_lines import ORDINARY_LINES
from ci_doctor.diagnosis.reading.log_text import Block
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.engine import fastest_engine
from ci_doctor.diagnosis.scanning.literal_engine import Engine

# (position in the block, index of the literal)
Place = tuple[int, int]
MakeEngine = Callable[[Sequence[bytes]], Engine]

# The roles of marks.
MARKS = frozenset({Role.RUN_BEGIN, Role.RUN_PASSED})
_NEAR_BYTES = 64 * 1024


class LiteralSearch:
    """The literals of `rules`, in two engines that `make_engine` makes."""

    def __init__(self, rules: RuleSet, make_engine: MakeEngine = fastest_engine) -> None:
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
