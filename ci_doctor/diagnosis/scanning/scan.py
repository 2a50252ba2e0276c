# SPDX-License-Identifier: Apache-2.0
"""Reads a log once and keeps the lines that a rule matches. Memory is bounded by the rules."""

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct

from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.reading.log_text import LONGEST_LINE_BYTES, Block, LogText, TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.engine import Engine, fastest_engine

# Kept of the lines of one rule: the first ones name the cause, the last ones how the job ended.
_FIRST = 200
_LAST = 200


class Hit(Struct, frozen=True, kw_only=True):
    """A line that a rule matches: `rule` is an index in the rule set, `fields` its named groups."""

    rule: int
    line: TextLine
    clean: CleanLine
    fields: dict[str, str]


class Scan(Struct, frozen=True, kw_only=True):
    """What one log holds: its hits in the order of their lines, and how many each rule has."""

    hits: tuple[Hit, ...]
    counts: dict[int, int]


class _Kept:
    """The first and the last hits of one rule."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Hit] = []
        self.last: deque[Hit] = deque(maxlen=_LAST)

    def add(self, hit: Hit) -> None:
        self.count += 1
        if len(self.first) < _FIRST:
            self.first.append(hit)
        else:
            self.last.append(hit)


def scan(log: LogText, rules: RuleSet) -> Scan:
    """Every kind of hit in `log`; at most 400 hits of a rule."""
    engine = fastest_engine(rules.literals)
    kept: dict[int, _Kept] = {}
    for block in log.blocks():
        for line, indices in _lines_with_literals(block, engine, rules):
            for hit in _hits(line, indices, rules):
                kept.setdefault(hit.rule, _Kept()).add(hit)
    hits = [hit for each in kept.values() for hit in (*each.first, *each.last)]
    hits.sort(key=lambda hit: (hit.line.offset, hit.rule))
    counts = {rule: each.count for rule, each in kept.items()}
    return Scan(hits=tuple(hits), counts=counts)


def _lines_with_literals(
    block: Block, engine: Engine, rules: RuleSet
) -> Iterator[tuple[TextLine, set[int]]]:
    """The lines of `block` that hold a literal, with the indices of the rules to try."""
    content = block.content
    number = block.line
    counted = 0
    start = end = -1
    indices: set[int] = set()
    for literal, position in sorted(engine(content), key=lambda match: match[1]):
        if position >= end:
            if indices:
                yield _line(block, number, start, end), indices
            start = content.rfind(b"\n", 0, position) + 1
            end = content.find(b"\n", position)
            if end < 0:
                end = len(content)
            number += content.count(b"\n", counted, start)
            counted = start
            indices = set()
        indices.update(rules.rules_of[literal])
    if indices:
        yield _line(block, number, start, end), indices


def _line(block: Block, number: int, start: int, end: int) -> TextLine:
    return TextLine(
        number, block.offset + start, block.content[start : min(end, start + LONGEST_LINE_BYTES)]
    )


def _hits(line: TextLine, indices: Iterable[int], rules: RuleSet) -> Iterator[Hit]:
    clean = clean_line(line.content)
    for rule, match in rules.matching(sorted(indices), clean.texts):
        fields = {name: value for name, value in match.groupdict().items() if value}
        yield Hit(rule=rule, line=line, clean=clean, fields=fields)
