# SPDX-License-Identifier: Apache-2.0
"""Reads a log once and keeps the lines that a rule matches. Memory is bounded by the rules.

The literals of the rules are looked for by an Aho-Corasick automaton. A verbose test runner marks
every test: millions of lines say that one began or passed. Such a mark matters only near a line that
looks like a failure, which it may take back. So marks that stand in ordinary lines are looked for
near the other literals only.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache

from ahocorasick_rs import BytesAhoCorasick, Implementation
from msgspec import Struct

from ci_doctor.diagnosis.lines import LONGEST_TEXT, CleanLine, clean_line
from ci_doctor.diagnosis.log_rules import (
    MARKS,
    NAMEABLE,
    ORDINARY_LINES,
    LogRule,
    Role,
    RuleSet,
    fields_of,
)
from ci_doctor.diagnosis.log_text import Block, LogText, TextLine

# From a block to (index of a literal, offset of its first byte) for every place where a literal
# stands, also where two overlap; in no fixed order.
Engine = Callable[[bytes], Sequence[tuple[int, int]]]
# (position in the block, index of the literal)
Place = tuple[int, int]
MakeEngine = Callable[[Sequence[bytes]], Engine]

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
        # What is near the others, as ranges that do not overlap.
        windows: list[list[int]] = []
        for position, _ in places:
            start = max(block.first, position - _NEAR_BYTES)
            end = min(block.last, position + _NEAR_BYTES)
            if not windows or start > windows[-1][1]:
                windows.append([start, end])
            windows[-1][1] = end
        for start, end in windows:
            for literal, position in self._engine_for_frequent(block.content[start:end]):
                places.append((start + position, self._frequent[literal]))
        places.sort()
        return places

    @cached_property
    def _engine_for_rare(self) -> Engine:
        return self._make_engine([self._literals[index] for index in self._rare])

    @cached_property
    def _engine_for_frequent(self) -> Engine:
        return self._make_engine([self._literals[index] for index in self._frequent])


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
    literals: tuple[int, ...]


def pieces(content: bytes, places: Iterable[tuple[int, int]]) -> Iterator[Piece]:
    """The pieces of `content` for the literals at `places`: (position, literal), sorted."""
    start = end = reach = -1
    is_cut = False
    literals: list[int] = []
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

# What the rules make of a text: (index of a rule, named groups, the words that it matches).
_Match = tuple[int, dict[str, str], CleanLine]
_Matches = tuple[_Match, ...]
_KeptMatch = tuple[_Match, TextLine]
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
        # By rule, how many there are, and the first and the last matches with their lines.
        self._counts: Counter[int] = Counter()
        self._kept: dict[int, tuple[list[_KeptMatch], deque[_KeptMatch]]] = {}
        self._remembered: dict[bytes, _Matches] = {}

    def read(self, block: Block, piece: Piece) -> None:
        content = block.content[piece.start : piece.end]
        matches = self._matches(content, piece)
        if not matches:
            return
        number = self._log.line_number(block, piece.start)
        line = TextLine(number, block.offset + piece.start, content)
        for match in matches:
            self._counts[match[0]] += 1
            first, last = self._kept.setdefault(match[0], ([], deque(maxlen=_LAST)))
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
        indices = {rule for literal in piece.literals for rule in self._rules.rules_of[literal]}
        matches: _Matches = ()
        # Travis and others write several things over each other in one line.
        for update in reversed(content.rstrip(b"\r").split(b"\r")[-_MOST_UPDATES:]):
            unknown = sorted(indices - {rule for rule, _, _ in matches})
            clean = clean_line(update)
            found = self._rules.matching(unknown, clean.texts)
            matches += tuple((rule, fields, clean) for rule, fields in found)
        return matches

    def result(self) -> Scan:
        hits = []
        for first, last in self._kept.values():
            for (rule, fields, clean), line in (*first, *last):
                # The match may be that of an earlier line with the same words, and another time.
                has_time = _without_time(line.content) is not line.content
                words = clean_line(line.content) if has_time else clean
                hits.append(Hit(rule=rule, line=line, clean=words, fields=fields))
        hits.sort(key=lambda hit: (hit.line.offset, hit.rule))
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


class RuleMatch(Struct, frozen=True, kw_only=True):
    """A rule that matches a line, and what its named groups capture there."""

    rule: LogRule
    fields: dict[str, str]


def strongest_match(
    rules: RuleSet, indices: Iterable[int], texts: Sequence[str], roles: AbstractSet[Role]
) -> RuleMatch | None:
    """The match of the rule with the most points, the first among equals; None without one.

    indices: the rules to try. texts: the forms of one line. roles: those that count. A line that is
    noise has no match, and neither has the header of a list: it names the line below it.
    """
    matches = []
    for index, fields in rules.matching(indices, texts):
        rule = rules.rules[index]
        if rule.next_line is None and rule.role in {*roles, Role.NOISE}:
            matches.append(RuleMatch(rule=rule, fields=fields))
    best = strongest([match.rule for match in matches])
    return None if best is None else matches[best]


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


def strongest_hits(hits: Iterable[Hit], rules: RuleSet) -> dict[int, Hit]:
    """From the offset of each line to its hit whose rule has the most points.

    A line that is noise has none; `strongest` says which of several counts.
    """
    by_line: dict[int, list[Hit]] = {}
    for hit in hits:
        if rules.rules[hit.rule].role in _COUNTING:
            by_line.setdefault(hit.line.offset, []).append(hit)
    best: dict[int, Hit] = {}
    for offset, on_line in by_line.items():
        index = strongest([rules.rules[hit.rule] for hit in on_line])
        if index is not None:
            best[offset] = on_line[index]
    return best


def offsets_of(hits: Iterable[Hit], rules: RuleSet, *roles: Role) -> set[int]:
    """The offsets of the lines with a hit of one of `roles`."""
    return {hit.line.offset for hit in hits if rules.rules[hit.rule].role in roles}


# Between a header and its list stand blank lines, rules of dashes, a marker of stars, apt's steps.
_LINES_BELOW = 9
_STEPS_OF_APT = re.compile(
    r"(?:Reading (?:package lists|state information)|Building dependency tree)"
)


def named_lines(log: LogText, hits: Iterable[Hit], rules: RuleSet) -> tuple[Hit, ...]:
    """The hits in the order of the lines that they name; a header without its list is none."""
    named = []
    for hit in hits:
        pattern = rules.next_line_patterns.get(hit.rule)
        if pattern is None:
            named.append(hit)
            continue
        below = _line_below(log, hit.line)
        if below is None:
            continue
        line, clean = below
        match = pattern.search(clean.message)
        if match is not None:
            fields = {**hit.fields, **fields_of(match)}
            named.append(Hit(rule=hit.rule, line=line, clean=clean, fields=fields))
    named.sort(key=lambda hit: (hit.line.offset, hit.rule))
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
