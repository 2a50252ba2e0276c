# SPDX-License-Identifier: Apache-2.0
"""Reads a log once and keeps the lines that a rule matches. Memory is bounded by the rules."""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.reading.log_text import Block, LogText, TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.engine import fastest_engine
from ci_doctor.diagnosis.scanning.hit_line import Piece, pieces
from ci_doctor.diagnosis.scanning.literal_search import LiteralSearch, MakeEngine

# Kept of the lines of one rule: the first ones name the cause, the last ones how the job ended.
_FIRST = 200
_LAST = 200
# Texts whose result is remembered: a log may repeat one error a million times.
_REMEMBERED = 2000
_ELLIPSIS = "…".encode()

# A progress bar may write over its own line many times; only the last few can be read there.
_MOST_UPDATES = 20

# What the rules make of a text: (index of a rule, named groups).
_Matches = tuple[tuple[int, dict[str, str]], ...]


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


def scan(log: LogText, rules: RuleSet, make_engine: MakeEngine = fastest_engine) -> Scan:
    """Every kind of hit in `log`; at most 400 hits of a rule."""
    search = LiteralSearch(rules, make_engine)
    scanner = _Scanner(log, rules)
    for block in log.blocks():
        for piece in pieces(block.content, search.places(block)):
            scanner.read(block, piece)
    return scanner.result()


class _Scanner:
    """Tries the rules on one piece of text after the other."""

    def __init__(self, log: LogText, rules: RuleSet) -> None:
        self._log = log
        self._rules = rules
        self._kept: dict[int, _Kept] = {}
        self._remembered: dict[tuple[tuple[str, ...], tuple[int, ...]], _Matches] = {}

    def read(self, block: Block, piece: Piece) -> None:
        content = block.content[piece.start : piece.end]
        shown = content
        if piece.is_cut:
            # What stands at its start does not stand at the start of a line.
            shown = _ELLIPSIS + content
        line: TextLine | None = None
        for rule, fields, clean in self._matches_of(shown, piece.literals):
            if line is None:
                number = self._log.line_number(block, piece.start)
                line = TextLine(number, block.offset + piece.start, content)
            kept = self._kept.setdefault(rule, _Kept())
            kept.add(Hit(rule=rule, line=line, clean=clean, fields=fields))

    def _matches_of(
        self, content: bytes, literals: tuple[int, ...]
    ) -> Iterator[tuple[int, dict[str, str], CleanLine]]:
        """What the rules make of `content`, each rule once."""
        known: set[int] = set()
        # Travis and others write several things over each other in one line.
        updates = content.rstrip(b"\r").split(b"\r")[-_MOST_UPDATES:]
        for update in reversed(updates):
            clean = clean_line(update)
            for rule, fields in self._matches(clean, literals):
                if rule not in known:
                    known.add(rule)
                    yield rule, fields, clean

    def _matches(self, clean: CleanLine, literals: tuple[int, ...]) -> _Matches:
        key = (clean.texts, literals)
        matches = self._remembered.get(key)
        if matches is None:
            matches = self._try_rules(clean, literals)
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = matches
        return matches

    def _try_rules(self, clean: CleanLine, literals: tuple[int, ...]) -> _Matches:
        indices: set[int] = set()
        for literal in literals:
            indices.update(self._rules.rules_of[literal])
        matches = []
        for rule, match in self._rules.matching(sorted(indices), clean.texts):
            fields = {name: value for name, value in match.groupdict().items() if value}
            matches.append((rule, fields))
        return tuple(matches)

    def result(self) -> Scan:
        hits = []
        for each in self._kept.values():
            hits += each.first
            hits += each.last
        hits.sort(key=lambda hit: (hit.line.offset, hit.rule))
        counts = {rule: each.count for rule, each in self._kept.items()}
        return Scan(hits=tuple(hits), counts=counts)


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
