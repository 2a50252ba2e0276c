# SPDX-License-Identifier: Apache-2.0
"""Pure. What followed from a cause: symptoms and time-outs that were written after it, in order."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.standing import ExceptionStanding
from ci_doctor.model.cause import FailureClass

_MOST = 5
# Of one rule in one log, so that few lines need a time.
_MOST_OF_RULE = 3
_WAITED: Final = frozenset({FailureClass.TIMEOUT, FailureClass.STALLED})
_WITHOUT_SAYING = frozenset({ExceptionStanding.TOLERATED, ExceptionStanding.ANSWERED})


def possible_consequences(cause: Candidate, others: Iterable[Candidate]) -> list[Candidate]:
    """Those of `others` that follow from `cause` if they were written after it.

    In the log of the cause they are those below it. In other logs time tells, see `consequences`.
    """
    counts: dict[tuple[int, str], int] = {}
    possible = []
    for each in sorted(others, key=_place):
        if not _is_symptom(each, cause) or _is_above(each, cause):
            continue
        key = (each.log, each.rule.id)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= _MOST_OF_RULE:
            possible.append(each)
    return possible


def consequences(cause: Candidate, timed: Sequence[Candidate]) -> list[Candidate]:
    """The first of `timed` that were not written before `cause`, one a rule, from cause to symptom.

    timed: possible consequences with their times, where there are any.
    """
    later = [each for each in timed if not _is_earlier(each, cause)]
    later.sort(key=lambda each: (_at_s(each, cause), each.log != cause.log, *_place(each)))
    listed: dict[str, Candidate] = {}
    for each in later:
        listed.setdefault(each.rule.id, each)
    return list(listed.values())[:_MOST]


def _is_symptom(candidate: Candidate, cause: Candidate) -> bool:
    if candidate.rule.role is Role.SYMPTOM:
        return True
    has_waited = candidate.rule.class_ in _WAITED and candidate.log != cause.log
    return has_waited and candidate.standing not in _WITHOUT_SAYING


def _is_above(candidate: Candidate, cause: Candidate) -> bool:
    return candidate.log == cause.log and candidate.line.offset <= cause.line.offset


def _is_earlier(candidate: Candidate, cause: Candidate) -> bool:
    if candidate.log == cause.log or candidate.at_s is None or cause.at_s is None:
        return False
    return candidate.at_s < cause.at_s


def _at_s(candidate: Candidate, cause: Candidate) -> float:
    if candidate.at_s is not None:
        return candidate.at_s
    # What its own log says without a time comes right after it.
    if candidate.log == cause.log and cause.at_s is not None:
        return cause.at_s
    return math.inf


def _place(candidate: Candidate) -> tuple[int, int]:
    return candidate.log, candidate.line.offset
