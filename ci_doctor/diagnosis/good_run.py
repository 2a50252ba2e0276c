# SPDX-License-Identifier: Apache-2.0
"""Reads the logs of a good run, and tells which lines of a failed one are new beside them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct, structs

from ci_doctor.diagnosis.log_rules import LogRule, Role, RuleSet
from ci_doctor.diagnosis.log_story import LogStory
from ci_doctor.diagnosis.log_text import LogText, TextLine, clean_line
from ci_doctor.diagnosis.rank import Candidate
from ci_doctor.diagnosis.scan import scan
from ci_doctor.diagnosis.tracebacks import TOLERATED_LEVELS
from ci_doctor.model.cause import normal_text

# A line takes about 20 µs to normalise: a good run of a million lines is not read line by line.
_MOST_LINES = 50_000
_END_LINES = 2_000
# Without so many letters a line is decoration.
_LEAST_LETTERS = 8
# The name of a machine stands within so many words from the start, in so many lines and every fifth.
_HEAD_WORDS: Final = 4
_LEAST_OF_NAME: Final = 2
_SHARE_OF_NAME: Final = 5
_NAME: Final = "<name>"
_BETWEEN: Final = re.compile(r"[\s\[\](){}|:;,=@/]+")
_BETWEEN_KEPT: Final = re.compile(r"([\s\[\](){}|:;,=@/]+)")
NEW_LINE: Final = LogRule(
    id="generic/new-line",
    role=Role.ERROR,
    weight=55,
    literals=(),
    regex="",
    explanation="The good run has no such line, and no other line is new.",
    remedy="Compare what the two runs did before it.",
)


class GoodRun(Struct, frozen=True, kw_only=True):
    """The normal texts of a good run: of the lines that a rule matches, and of all its lines.

    `lines` is None if there are more than 50,000. names: those of the machines and programs that
    wrote the failed run, where the good one has others.
    """

    hits: frozenset[str]
    lines: frozenset[str] | None
    names: frozenset[str] = frozenset()

    def normal(self, message: str) -> str:
        """The normal text of a line of the failed run, with the names of the good one."""
        return _without_names(normal_text(message), self.names)

    def has_line(self, line: TextLine) -> bool:
        """Whether the good run has this line of the failed one, or the line has no words."""
        text = self.normal(clean_line(line.content).message)
        return (
            self.lines is None
            or text in self.lines
            or sum(character.isalpha() for character in text) < _LEAST_LETTERS
        )


def read_good_run(
    baseline: Sequence[LogText], rules: RuleSet, failed: Sequence[LogText]
) -> GoodRun:
    """What the logs of a good run hold. The logs of the `failed` one were read before."""
    hits = {normal_text(hit.clean.message) for log in baseline for hit in scan(log, rules).hits}
    good: list[str] = []
    count = 0
    for block in (block for log in baseline for block in log.blocks()):
        lines = block.content.split(b"\n")
        count += len(lines)
        if count > _MOST_LINES:
            return GoodRun(hits=frozenset(hits), lines=None)
        good += [normal_text(clean_line(line).message) for line in lines]
    last = [line.content for log in failed for line in log.tail(_END_LINES)]
    bad = [normal_text(clean_line(content).message) for content in last]
    names, own = _names_that_differ(bad, good)
    return GoodRun(
        hits=frozenset(_without_names(text, own) for text in hits),
        lines=frozenset(_without_names(text, own) for text in set(good)),
        names=names,
    )


def _names_that_differ(
    bad: Sequence[str], good: Sequence[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """The names before the lines of one run that the other does not have, of both.

    A name stands among the first words of every fifth line at least.
    """
    heads = [Counter(word for text in texts for word in set(_head(text))) for texts in (bad, good)]
    names = []
    for own, other, texts in ((heads[0], heads[1], bad), (heads[1], heads[0], good)):
        least = max(_LEAST_OF_NAME, sum(map(bool, texts)) / _SHARE_OF_NAME)
        names.append(
            frozenset(word for word, count in own.items() if count >= least and word not in other)
        )
    return names[0], names[1]


def _head(text: str) -> list[str]:
    words = [word for word in _BETWEEN.split(text) if any(map(str.isalpha, word))]
    return words[:_HEAD_WORDS]


def _without_names(text: str, names: AbstractSet[str]) -> str:
    if not names:
        return text
    return "".join(_NAME if part in names else part for part in _BETWEEN_KEPT.split(text))


def only_new_line(
    stories: Sequence[LogStory], logs: Sequence[LogText], good: GoodRun
) -> Candidate | None:
    """The one line of the failed run that the good one does not have; None if there are others.

    Its log does not end well, and a line that only says that something failed does not count.
    """
    found: dict[str, Candidate] = {}
    for candidate in _new_lines(stories, logs, good):
        found.setdefault(good.normal(candidate.clean.message), candidate)
        if len(found) > 1:
            return None
    for candidate in found.values():
        words = set(_head(candidate.clean.text))
        is_calm = candidate.clean.level in TOLERATED_LEVELS or words & TOLERATED_LEVELS
        if not is_calm and not stories[candidate.log].has_ended_well:
            return structs.replace(candidate, in_good_run=False)
    return None


def _new_lines(
    stories: Sequence[LogStory], logs: Sequence[LogText], good: GoodRun
) -> Iterator[Candidate]:
    for index, (story, log) in enumerate(zip(stories, logs, strict=True)):
        known = {each.line.offset: each for each in story.candidates}
        ends = {step.end.offset for step in story.steps}
        for line in log.tail(_END_LINES):
            if line.offset in ends or good.has_line(line):
                continue
            clean = clean_line(line.content)
            new = Candidate(log=index, line=line, clean=clean, rule=NEW_LINE, fields={})
            candidate = known.get(line.offset, new)
            if candidate.rule.role is not Role.SYMPTOM:
                yield candidate


def last_new_lines(log: LogText, good: GoodRun) -> TextLine | None:
    """The first of the last lines in `log` that the good run does not have; None if none is new.

    Up to three lines that are not new may stand between two that are. A line must hold words.
    """
    if good.lines is None:
        return None
    first: TextLine | None = None
    known = 0
    for line in reversed(log.tail(_END_LINES)):
        if good.has_line(line):
            known += 1
            if first is not None and known > 3:
                break
            continue
        known = 0
        first = line
    return first
