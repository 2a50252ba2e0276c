# SPDX-License-Identifier: Apache-2.0
"""Reads the lines around the strongest candidates, for signs that their script went on."""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.rank import Ranked, nearly_strongest, rank
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.went_on import (
    LINES_AFTER,
    LINES_BEFORE,
    Sign,
    shown_text,
    signs_of,
)
from ci_doctor.model.fingerprint import normal_text

# A log of a big job has thousands of candidates, and reading around each takes time.
_MOST: Final = 30


def examined(candidates: Sequence[Candidate], logs: Sequence[LogText]) -> list[Ranked]:
    """The `candidates` by rank, of which those that may be first have their signs."""
    pending = list(candidates)
    done: list[Candidate] = []
    reader = _Surroundings(logs)
    ranked = rank(pending)
    # A sign only takes points away. So the first ones are certain once all of them have been read.
    while len(done) < _MOST:
        known = {id(each) for each in done}
        near = [each.candidate for each in nearly_strongest(ranked)]
        unread = [each for each in near if id(each) not in known][: _MOST - len(done)]
        if not unread:
            break
        chosen = {id(each) for each in unread}
        pending = [each for each in pending if id(each) not in chosen]
        done += [reader.with_signs(each) for each in unread]
        ranked = rank([*done, *pending])
    return rank([*_with_vain_retries(done), *pending])


def has_gone_on(candidate: Candidate, logs: Sequence[LogText]) -> bool:
    """Whether anything around `candidate` shows that its script went on after it."""
    return bool(candidate.signs or _Surroundings(logs).with_signs(candidate).signs)


def _with_vain_retries(candidates: Sequence[Candidate]) -> list[Candidate]:
    """`candidates`, of which those that a retry did not cure were not tolerated after all.

    The last of several lines of the same words says how the retries ended.
    """
    last: dict[tuple[int, str, str], Candidate] = {}
    for each in sorted(candidates, key=lambda each: each.line.offset):
        last[_words(each)] = each
    read_again = []
    for each in candidates:
        if Sign.TOLERATED in each.signs and Sign.TOLERATED not in last[_words(each)].signs:
            signs = each.signs - {Sign.TOLERATED}
            read_again.append(structs.replace(each, signs=signs))
        else:
            read_again.append(each)
    return read_again


def _words(candidate: Candidate) -> tuple[int, str, str]:
    return candidate.log, candidate.rule.id, normal_text(candidate.clean.message)


class _Surroundings:
    """The texts of lines, each of which is cleaned once."""

    def __init__(self, logs: Sequence[LogText]) -> None:
        self._logs = logs
        self._texts: dict[tuple[int, int], str] = {}

    def with_signs(self, candidate: Candidate) -> Candidate:
        log = self._logs[candidate.log]
        below = min(LINES_AFTER, candidate.lines_in_step)
        before = [self._text(candidate, line) for line in log.before(candidate.line, LINES_BEFORE)]
        after = [self._text(candidate, line) for line in log.after(candidate.line, below)[1:]]
        signs = signs_of(candidate.clean.message, before, after)
        return structs.replace(candidate, signs=signs)

    def _text(self, candidate: Candidate, line: TextLine) -> str:
        key = (candidate.log, line.offset)
        text = self._texts.get(key)
        if text is None:
            text = shown_text(line.content, clean_line(line.content).text)
            self._texts[key] = text
        return text
