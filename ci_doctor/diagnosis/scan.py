# SPDX-License-Identifier: Apache-2.0
"""Reads a log once and keeps the lines that a rule matches. Memory is bounded by the rules.

The literals of the rules are looked for by an Aho-Corasick automaton. A verbose test runner marks
every test: millions of lines say that one began or passed. Such a mark matters only near a line that
looks like a failure, which it may take back. So marks that stand in ordinary lines are looked for
near the other literals only.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from ahocorasick_rs import BytesAhoCorasick, Implementation
from msgspec import Struct

from ci_doctor.diagnosis.log_rules import (
    MARKS,
    NAMEABLE,
    ORDINARY_LINES,
    LogRule,
    Role,
    RuleSet,
    fields_of,
)
from ci_doctor.diagnosis.log_text import (
    LONGEST_TEXT,
    Block,
    CleanLine,
    LogText,
    TextLine,
    clean_line,
)

# (position in the block, a literal that stands there)
Place = tuple[int, bytes]

_NEAR_BYTES = 64 * 1024


class LiteralSearch:
    """Looks for the literals of `rules`: for those of ordinary lines near the others only."""

    def __init__(self, rules: RuleSet) -> None:
        ordinary = "\n".join(ORDINARY_LINES).encode()
        self._frequent = [
            literal
            for literal, on_line in rules.by_literal.items()
            if literal in ordinary and all(rule.role in MARKS for rule in on_line)
        ]
        self._rare = [each for each in rules.by_literal if each not in self._frequent]
        # An automaton is ready in a small part of the time that one of the kind DFA takes.
        self._engines = [
            BytesAhoCorasick(literals, implementation=Implementation.ContiguousNFA)
            for literals in (self._rare, self._frequent)
        ]

    def places(self, block: Block) -> list[Place]:
        """The places that count in `block`, sorted."""
        places = [
            place
            for place in self._all(block.content, 0, is_rare=True)
            if block.first <= place[0] < block.last
        ]
        # What is near the others, as ranges that do not overlap.
        windows: list[list[int]] = []
        for position, _ in sorted(places):
            start = max(block.first, position - _NEAR_BYTES)
            if not windows or start > windows[-1][1]:
                windows.append([start, start])
            windows[-1][1] = min(block.last, position + _NEAR_BYTES)
        for start, end in windows:
            places += self._all(block.content[start:end], start, is_rare=False)
        return sorted(places)

    def _all(self, content: bytes, offset: int, *, is_rare: bool) -> Iterator[Place]:
        literals = self._rare if is_rare else self._frequent
        engine = self._engines[0 if is_rare else 1]
        # Also where two overlap.
        for index, start, _ in engine.find_matches_as_indexes(content, overlapping=True):
            yield offset + start, literals[index]


# Of a longer line a literal is read with this much before it, and up to LONGEST_TEXT in all.
_BEFORE_BYTES = 500
# A literal that is further from the start of a piece gets a piece of its own.
_REACH_BYTES = 1500


class Piece(Struct, frozen=True):
    """What to try rules on: `content[start:end]` of a block, without its newline.

    It is a line of at most 2,000 bytes. Of a longer one it is what one update of a progress bar has
    written (between carriage returns), or the surroundings of a literal: then `is_cut`. literals:
    those that it holds.
    """

    start: int
    end: int
    is_cut: bool
    literals: tuple[bytes, ...]


def pieces(content: bytes, places: Iterable[Place]) -> Iterator[Piece]:
    """The pieces of `content` for the literals at `places`: (position, literal), sorted."""
    start = end = reach = -1
    is_cut = False
    literals: list[bytes] = []
    for position, literal in places:
        if position >= reach:
            if literals:
                yield Piece(start, end, is_cut, tuple(literals))
            start, end, is_cut = _bounds(content, position)
            reach = end
            if end == start + LONGEST_TEXT:
                reach = start + _REACH_BYTES
            literals = []
        literals.append(literal)
    if literals:
        yield Piece(start, end, is_cut, tuple(literals))


def _bounds(content: bytes, position: int) -> tuple[int, int, bool]:
    """Where the piece with `position` begins and ends, and whether it begins inside a line."""
    first = content.rfind(b"\n", max(0, position - LONGEST_TEXT), position) + 1
    if first > 0 or position <= LONGEST_TEXT:
        last = content.find(b"\n", position, first + LONGEST_TEXT)
        if last < 0 and len(content) <= first + LONGEST_TEXT:
            last = len(content)
        if last >= 0:
            return first, last, False
    # A longer line: one update of a progress bar, or the surroundings of the literal.
    lowest = max(0, position - _REACH_BYTES + 1)
    before = max(content.rfind(mark, lowest, position) for mark in (b"\n", b"\r"))
    is_cut = before < 0 < lowest
    start = position - _BEFORE_BYTES if is_cut else before + 1
    end = min(start + LONGEST_TEXT, len(content))
    for mark in (b"\n", b"\r"):
        found = content.find(mark, position, end)
        end = found if found >= 0 else end
    return start, end, is_cut


# Kept of the lines of one rule: the first ones name the cause, the last ones how the job ended.
_FIRST = 200
_LAST = 200
# Lines whose result is remembered: a log may repeat one error a million times.
_REMEMBERED = 2000
_ELLIPSIS = "…".encode()

# A progress bar may write over its own line many times; only the last few can be read there.
_MOST_UPDATES = 20

# What the rules make of a text: (a rule, its named groups, the words that it matches).
_Match = tuple[LogRule, dict[str, str], CleanLine]
_Matches = tuple[_Match, ...]
_KeptMatch = tuple[_Match, TextLine]
# A part of what `without_stamps` removes, for which a line need not be decoded.
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z ")


class Hit(Struct, frozen=True, kw_only=True):
    """A line that a rule matches, and what the rule's named groups capture there."""

    rule: LogRule
    line: TextLine
    clean: CleanLine
    fields: dict[str, str]


class Scan(Struct, frozen=True, kw_only=True):
    """What one log holds: its hits in the order of their lines, and how many there are by the rule's id."""

    hits: tuple[Hit, ...]
    counts: dict[str, int]


def scan(log: LogText, rules: RuleSet) -> Scan:
    """Every kind of hit in `log`; at most 400 hits of a rule."""
    search = search_for(rules)
    scanner = _Scanner(log, rules)
    for block in log.blocks():
        for piece in pieces(block.content, search.places(block)):
            scanner.read(block, piece)
    return scanner.result()


@lru_cache(maxsize=4)
def search_for(rules: RuleSet) -> LiteralSearch:
    """What looks for the literals of `rules`, the same for each of a job's logs."""
    # A job has several logs, and an automaton takes longer to make than a log to read.
    return LiteralSearch(rules)


class _Scanner:
    """Tries the rules on one piece of text after the other."""

    def __init__(self, log: LogText, rules: RuleSet) -> None:
        self._log = log
        self._rules = rules
        # By rule, how many there are, and the first and the last matches with their lines.
        self._counts: Counter[str] = Counter()
        self._kept: dict[str, tuple[list[_KeptMatch], deque[_KeptMatch]]] = {}
        self._remembered: dict[bytes, _Matches] = {}

    def read(self, block: Block, piece: Piece) -> None:
        content = block.content[piece.start : piece.end]
        matches = self._matches(content, piece)
        if not matches:
            return
        number = self._log.line_number(block, piece.start)
        line = TextLine(number, block.offset + piece.start, content)
        for match in matches:
            self._counts[match[0].id] += 1
            first, last = self._kept.setdefault(match[0].id, ([], deque(maxlen=_LAST)))
            (first if len(first) < _FIRST else last).append((match, line))

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
        rules = {rule.id: rule for each in piece.literals for rule in self._rules.by_literal[each]}
        matches: _Matches = ()
        # Travis and others write several things over each other in one line.
        for update in reversed(content.rstrip(b"\r").split(b"\r")[-_MOST_UPDATES:]):
            clean = clean_line(update)
            found = self._rules.matching(rules.values(), clean.texts)
            matches += tuple((rule, fields, clean) for rule, fields in found)
            for rule, _ in found:
                del rules[rule.id]
        return matches

    def result(self) -> Scan:
        hits = []
        for first, last in self._kept.values():
            for (rule, fields, clean), line in (*first, *last):
                # The match may be that of an earlier line with the same words, and another time.
                has_time = _without_time(line.content) is not line.content
                words = clean_line(line.content) if has_time else clean
                hits.append(Hit(rule=rule, line=line, clean=words, fields=fields))
        hits.sort(key=lambda hit: (hit.line.offset, self._rules.place(hit.rule)))
        return Scan(hits=tuple(hits), counts=dict(self._counts))


def _without_time(content: bytes) -> bytes:
    """`content` without the time of GitHub and others, of which no rule makes anything."""
    if content[10:11] != b"T" or b"\r" in content[:-1]:
        return content
    stamp = _TIME.match(content)
    if stamp is None:
        return content
    # Not without its end: after a time, a line may be read differently than without one.
    return content[stamp.end() - 2 :]


def strongest(matching: Sequence[LogRule]) -> int | None:
    """The index of that of the rules `matching` one line which says most about it.

    None for a line that is noise. A rule that another one stands instead of does not count, and a
    line that is a known symptom is no error in general. Among equals the first counts.
    """
    replaced = {each for rule in matching for each in rule.instead_of}
    counting = [rule for rule in matching if rule.id not in replaced]
    roles = {rule.role for rule in counting}
    if Role.NOISE in roles:
        return None
    if Role.SYMPTOM in roles:
        counting = [rule for rule in counting if rule.role is not Role.ERROR]
    if not counting:
        return None
    return matching.index(max(counting, key=lambda rule: rule.points))


_COUNTING = NAMEABLE | {Role.NOISE}


def strongest_hits(hits: Iterable[Hit]) -> dict[int, Hit]:
    """From the offset of each line to its hit whose rule has the most points.

    A line that is noise has none; `strongest` says which of several counts.
    """
    by_line: dict[int, list[Hit]] = {}
    for hit in hits:
        if hit.rule.role in _COUNTING:
            by_line.setdefault(hit.line.offset, []).append(hit)
    best: dict[int, Hit] = {}
    for offset, on_line in by_line.items():
        index = strongest([hit.rule for hit in on_line])
        if index is not None:
            best[offset] = on_line[index]
    return best


def offsets_of(hits: Iterable[Hit], *roles: Role) -> set[int]:
    """The offsets of the lines with a hit of one of `roles`."""
    return {hit.line.offset for hit in hits if hit.rule.role in roles}


# Between a header and its list stand blank lines, rules of dashes, a marker of stars, apt's steps.
_LINES_BELOW = 9
_STEPS_OF_APT = re.compile(
    r"(?:Reading (?:package lists|state information)|Building dependency tree)"
)


def named_lines(log: LogText, hits: Iterable[Hit], rules: RuleSet) -> tuple[Hit, ...]:
    """The hits in the order of the lines that they name; a header without its list is none."""
    named = []
    for hit in hits:
        if hit.rule.next_line is None:
            named.append(hit)
            continue
        below = _line_below(log, hit.line)
        if below is None:
            continue
        line, clean = below
        match = rules.pattern(hit.rule, hit.rule.next_line).search(clean.message)
        if match is not None:
            fields = {**hit.fields, **fields_of(match)}
            named.append(Hit(rule=hit.rule, line=line, clean=clean, fields=fields))
    named.sort(key=lambda hit: (hit.line.offset, rules.place(hit.rule)))
    return tuple(named)


def _line_below(log: LogText, header: TextLine) -> tuple[TextLine, CleanLine] | None:
    """The next line with a letter or digit; None if there is none near."""
    for line in log.after(header, _LINES_BELOW)[1:]:
        clean = clean_line(line.content)
        if _STEPS_OF_APT.match(clean.message) is not None:
            continue
        if any(character.isalnum() for character in clean.message):
            return line, clean
    return None
