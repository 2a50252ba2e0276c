# SPDX-License-Identifier: Apache-2.0
"""Acts on what the fixes of checks change, and runs those checks again: `ci-doctor doctor --fix`."""

from collections.abc import Callable, Iterator
from contextlib import closing

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.checks.check import DoctorCheck, FinishedCheck
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.outcome import DoctorRun
from ci_doctor.checks.result import Fix
from ci_doctor.checks.running import run_checks
from ci_doctor.errors import CiDoctorError


class FixAttempt(Struct, frozen=True, kw_only=True):
    """A change that was made; `error` is why it could not be, None if it could."""

    words: str
    error: str | None


def planned(ran: DoctorRun) -> DoctorRun:
    """`ran` with the changes that `fix` would make, in words. Nothing is changed."""
    words: list[str] = []
    for each in ran.finished:
        words.extend(fix.words for fix in _fixes(each))
    return replace(ran, would_fix=tuple(words))


def fix(ran: DoctorRun, context: CheckContext, show: Callable[[str], None]) -> DoctorRun:
    """Make the changes of all problems, and run their checks again.

    `show` gets the words of each change before it is made. If a change of a check fails, its earlier
    result stands: a verdict never becomes better by a failed change.
    """
    fixed: list[str] = []
    not_fixed: dict[str, str] = {}
    again: list[DoctorCheck] = []
    for each in ran.finished:
        attempts = [_attempt(one, show) for one in _fixes(each)]
        for attempt in attempts:
            if attempt.error is None:
                fixed.append(attempt.words)
            else:
                not_fixed[attempt.words] = attempt.error
        if attempts and all(attempt.error is None for attempt in attempts):
            again.append(each.check)
    second = _checked_again(again, context)
    finished = tuple(second.get(each.check.id, each) for each in ran.finished)
    return replace(ran, finished=finished, fixed=tuple(fixed), not_fixed=not_fixed)


def _fixes(finished: FinishedCheck) -> Iterator[Fix]:
    for problem in finished.result.problems:
        if problem.fix is not None:
            yield problem.fix


def _attempt(one: Fix, show: Callable[[str], None]) -> FixAttempt:
    show(one.words)
    try:
        one.apply()
    except CiDoctorError as error:
        return FixAttempt(words=one.words, error=error.message)
    except OSError as error:
        return FixAttempt(words=one.words, error=error.strerror or str(error))
    return FixAttempt(words=one.words, error=None)


def _checked_again(checks: list[DoctorCheck], context: CheckContext) -> dict[str, FinishedCheck]:
    """The second results by id: of a context in which nothing has been read yet."""
    if not checks:
        return {}
    with closing(run_checks(checks, context.renewed())) as ending:
        return {each.check.id: each for each in ending}
