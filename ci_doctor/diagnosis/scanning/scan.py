# SPDX-License-Identifier: Apache-2.0
"""Reads a log once and keeps the lines that a rule matches. Memory is bounded by the rules."""

import re
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.reading.log_text import Block, LogText, TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.hit_line import Piece, pieces
from ci_doctor.diagnosis.scanning.literal_search import LiteralSearch, MakeEngine, engine_for_size

# Kept of the lines of one rule: the first ones name the cause, the last ones how the job ended.
_FIRST = 200
_LAST = 200
# Lines whose result is remembered: a log may repeat one error a million times.
_REMEMBERED = 2000
_ELLIPSIS = "…".encode()

# A progress bar may write over its own line many times; only the last few can be read there.
_MOST_UPDATES = 20

# What the rules make of a text: (index of a rule, named groups, the words that it matches).
_Match = tuple[int, dict[str, str], CleanLine]
_Matches = tuple[_Match, ...]
# (number of the line, offset of the text in the log, the text)
_Place = tuple[int, int, bytes]
# A part of what `without_stamps` removes, for which a line need not be decoded.
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z ")


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


def scan(log: LogText, rules: RuleSet, make_engine: MakeEngine | None = None) -> Scan:
    """Every kind of hit in `log`; at most 400 hits of a rule. make_engine: None for the best."""
    search = search_for(rules, make_engine or engine_for_size(log.size))
    scanner = _Scanner(log, rules)
    for block in log.blocks():
        for piece in pieces(block.content, search.places(block)):
            scanner.read(block, piece)
    return scanner.result()


@lru_cache(maxsize=4)
def search_for(rules: RuleSet, make_engine: MakeEngine) -> LiteralSearch:
    """What looks for the literals of `rules`, the same for each of a job's logs."""
    # A job has several logs, and an engine takes longer to make than a log to read.
    return LiteralSearch(rules, make_engine)


class _Scanner:
    """Tries the rules on one piece of text after the other."""

    def __init__(self, log: LogText, rules: RuleSet) -> None:
        self._log = log
        self._rules = rules
        self._kept: dict[int, _Kept] = {}
        self._remembered: dict[bytes, _Matches] = {}

    def read(self, block: Block, piece: Piece) -> None:
        content = block.content[piece.start : piece.end]
        matches = self._matches(content, piece)
        if not matches:
            return
        number = self._log.line_number(block, piece.start)
        place = (number, block.offset + piece.start, content)
        for match in matches:
            kept = self._kept.get(match[0])
            if kept is None:
                kept = self._kept[match[0]] = _Kept()
            kept.add((match, place))

    def _matches(self, content: bytes, piece: Piece) -> _Matches:
        if piece.is_cut:
            # What stands at its start does not stand at the start of a line.
            return self._try_rules(_ELLIPSIS + content, piece)
        words = _without_time(content)
        answer = self._remembered.get(words)
        if answer is None:
            answer = self._try_rules(content, piece)
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[words] = answer
        return answer

    def _try_rules(self, content: bytes, piece: Piece) -> _Matches:
        indices: set[int] = set()
        for literal in piece.literals:
            indices.update(self._rules.rules_of[literal])
        matches: _Matches = ()
        # Travis and others write several things over each other in one line.
        for update in reversed(content.rstrip(b"\r").split(b"\r")[-_MOST_UPDATES:]):
            known = {rule for rule, _, _ in matches}
            matches += self._match(update, sorted(indices - known))
        return matches

    def _match(self, content: bytes, indices: Sequence[int]) -> _Matches:
        clean = clean_line(content)
        matches = []
        for rule, fields in self._rules.matching(indices, clean.texts):
            matches.append((rule, fields, clean))
        return tuple(matches)

    def result(self) -> Scan:
        hits = []
        for each in self._kept.values():
            hits += [_hit(match, place) for match, place in (*each.first, *each.last)]
        hits.sort(key=lambda hit: (hit.line.offset, hit.rule))
        counts = {rule: each.count for rule, each in self._kept.items()}
        return Scan(hits=tuple(hits), counts=counts)


class _Kept:
    """The first and the last matches of one rule, and where they stand."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[_Match, _Place]] = []
        self.last: deque[tuple[_Match, _Place]] = deque(maxlen=_LAST)

    def add(self, match: tuple[_Match, _Place]) -> None:
        self.count += 1
        if self.count > _FIRST:
            self.last.append(match)
        else:
            self.first.append(match)


def _without_time(content: bytes) -> bytes:
    """`content` without the time of GitHub and others, of which no rule makes anything."""
    if content[10:11] != b"T" or b"\r" in content[:-1]:
        return content
    stamp = _TIME.match(content)
    if stamp is None:
        return content
    # Not without its end: after a time, a line may be read differently than without one.
    return content[stamp.end() - 2 :]


def _hit(match: _Match, place: _Place) -> Hit:
    rule, fields, clean = match
    number, offset, content = place
    if _without_time(content) is not content:
        # The match may be that of an earlier line with the same words.
        clean = clean_line(content)
    return Hit(rule=rule, line=TextLine(number, offset, content), clean=clean, fields=fields)
