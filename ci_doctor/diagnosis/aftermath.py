# SPDX-License-Identifier: Apache-2.0
"""Pure. What a log holds after a cause: whether its program ended by it, or went on.

The rank of a line says little of when it was written: a server may log a full disk, do without its
cache, and die an hour later of a mistake in the change. A retry for the disk would hide that.
"""

from collections.abc import Sequence
from typing import Final

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.cause import Cause
from ci_doctor.diagnosis.exit_status import RetryEvidence, can_be_retried
from ci_doctor.diagnosis.failure_class import FailureClass
from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.standing import TOLERATED_LEVELS, ExceptionStanding

# A program that ends says little more; so many lines of its last words are shown too.
_LAST_LINES: Final = 15
_HEADER: Final = "Traceback (most recent call last):"
_ENDING: Final = frozenset({ExceptionStanding.FATAL, ExceptionStanding.CAUSE})


def is_final(cause: Cause, candidates: Sequence[Candidate], lines: Sequence[str]) -> bool:
    """Whether nothing but consequences follows `cause` in its log.

    candidates: all of that log. lines: all of that log.
    """
    return ended_by(cause, candidates, lines[cause.place.line :])


def ended_by(cause: Cause, candidates: Sequence[Candidate], following: Sequence[str]) -> bool:
    """The same, given only the lines `following` that of `cause`."""
    if _says_more(cause, candidates, following):
        return False
    return not any(can_end(each, cause.class_) for each in after(cause, candidates))


def after(cause: Cause, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those of `candidates` whose line comes after that of `cause`."""
    return [each for each in candidates if each.line.number > cause.place.line]


def went_on(cause: Cause, candidates: Sequence[Candidate], lines: Sequence[str]) -> bool:
    """Whether more than 15 lines follow `cause`, without tracebacks and what a rule names.

    Of an exception by which its program says that it ends, False: what follows is its stop.
    """
    return _says_more(cause, candidates, lines[cause.place.line :])


def _says_more(cause: Cause, candidates: Sequence[Candidate], following: Sequence[str]) -> bool:
    for each in candidates:
        if each.line.number == cause.place.line and each.standing is ExceptionStanding.FATAL:
            return False
    named = {each.line.number for each in candidates}
    count = 0
    for number, line in enumerate(following, cause.place.line + 1):
        if number in named or not _is_ordinary(line):
            continue
        count += 1
        if count > _LAST_LINES:
            return True
    return False


def _is_ordinary(line: str) -> bool:
    """Whether `line` has words, and is no part of a traceback."""
    # Most lines of a traceback have no prefix: cheaper than to clean them.
    if not line or line.startswith("  "):
        return False
    message = clean_line(line.encode()).message
    return bool(message) and not message.startswith(("  ", _HEADER))


def can_end(candidate: Candidate, class_: FailureClass | None) -> bool:
    """Whether `candidate` can have ended its program, and is not of `class_`, as the cause is."""
    rule = candidate.rule
    if rule.class_ is class_:
        return False
    # The question is whether it would ask for a retry if it had ended the program.
    evidence = RetryEvidence(
        class_=rule.class_,
        says_outside=rule.is_outside,
        text=candidate.clean.text,
        is_final=True,
    )
    if can_be_retried(evidence):
        return False
    if candidate.standing is not None:
        return candidate.standing in _ENDING and rule.role is not Role.SYMPTOM
    if candidate.clean.level in TOLERATED_LEVELS:
        return False
    return rule.role in {Role.CAUSE, Role.FAILURE}
