# SPDX-License-Identifier: Apache-2.0
"""Reads the logs of a good run, and tells which lines of a failed one are new beside them."""

from collections.abc import Sequence

from msgspec import Struct, structs

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.lines.normal_text import normal_text
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import scan

# A line takes about 20 µs to normalise: a good run of a million lines is not read line by line.
_MOST_LINES = 50_000
_END_LINES = 2_000
# Without so many letters a line is decoration.
_LEAST_LETTERS = 8


class GoodRun(Struct, frozen=True, kw_only=True):
    """The normal texts of a good run: of the lines that a rule matches, and of all its lines.

    `lines` is None if there are more than 50,000.
    """

    hits: frozenset[str]
    lines: frozenset[str] | None


def read_good_run(logs: Sequence[LogText], rules: RuleSet) -> GoodRun:
    """What the logs of a good run hold."""
    hits: set[str] = set()
    for log in logs:
        for hit in scan(log, rules).hits:
            hits.add(normal_text(hit.clean.message))
    return GoodRun(hits=frozenset(hits), lines=_all_lines(logs))


def _all_lines(logs: Sequence[LogText]) -> frozenset[str] | None:
    texts: set[str] = set()
    count = 0
    for log in logs:
        for block in log.blocks():
            lines = block.content.split(b"\n")
            count += len(lines)
            if count > _MOST_LINES:
                return None
            texts.update(_normal(line) for line in lines)
    return frozenset(texts)


def compared(candidates: Sequence[Candidate], good: GoodRun) -> list[Candidate]:
    """`candidates`, each of which knows whether a line like it stands in the good run."""
    known = []
    for candidate in candidates:
        is_known = normal_text(candidate.clean.message) in good.hits
        known.append(structs.replace(candidate, in_good_run=is_known))
    return known


def last_new_lines(log: LogText, good: GoodRun) -> TextLine | None:
    """The first of the last lines in `log` that the good run does not have; None if none is new.

    Up to three lines that are not new may stand between two that are. A line must hold words.
    """
    if good.lines is None:
        return None
    first: TextLine | None = None
    known = 0
    for line in reversed(log.tail(_END_LINES)):
        text = _normal(line.content)
        if text in good.lines or not _has_words(text):
            known += 1
            if first is not None and known > 3:
                break
            continue
        known = 0
        first = line
    return first


def _has_words(text: str) -> bool:
    return sum(character.isalpha() for character in text) >= _LEAST_LETTERS


def _normal(line: bytes) -> str:
    return normal_text(clean_line(line).message)
