# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs the checks that make sense here. The room's entry without click."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from msgspec import Struct

from ci_doctor.checks.all_checks import missing_need
from ci_doctor.checks.check import DoctorCheck, FinishedCheck
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.outcome import DoctorRun
from ci_doctor.checks.result import unknown_result
from ci_doctor.checks.running import run_checks

# More names than these do not fit in a line.
_NAMED: Final = 3


class DoctorRequest(Struct, frozen=True, kw_only=True):
    """The `checks` to run, and whether an unknown that is needed ends `void` (`strict`)."""

    checks: tuple[DoctorCheck, ...]
    strict: bool = False


def run(
    request: DoctorRequest, context: CheckContext, tell: Callable[[str], None] = lambda _: None
) -> DoctorRun:
    """Run the checks, and call `tell` with what is waited for.

    The results stand in the order of the request. Raises nothing of a check's own.
    """
    not_run = {}
    runnable = []
    unmeasured = []
    for check in request.checks:
        reason = missing_need(check, context)
        if reason is None:
            runnable.append(check)
        # It was asked for: what cannot be had is unknown, and not out of place.
        elif check.is_measurement:
            result = unknown_result(reason)
            unmeasured.append(FinishedCheck(check=check, result=result, duration_s=None))
        else:
            not_run[check] = reason

    def tell_pending(pending: Sequence[DoctorCheck]) -> None:
        tell(_waiting_for(pending, len(runnable)))

    # Closed even if `tell` raises: programs must not outlive us.
    with closing(run_checks(runnable, context, tell_pending)) as ending:
        finished = list(ending)
    return DoctorRun(
        finished=tuple(_in_order([*finished, *unmeasured], request.checks)),
        not_run=not_run,
        workload=context.workload,
        strict=request.strict,
    )


def _waiting_for(pending: Sequence[DoctorCheck], count: int) -> str:
    """Such as `51 of 53 checks have ended; waiting for gpu/driver, imports/services`."""
    names = [check.id for check in pending]
    shown = ", ".join(names[:_NAMED])
    rest = len(names) - _NAMED
    if rest > 0:
        shown += f" and {rest} more"
    return f"{count - len(names)} of {count} checks have ended; waiting for {shown}"


def _in_order(
    finished: Sequence[FinishedCheck], checks: Sequence[DoctorCheck]
) -> list[FinishedCheck]:
    places = {check.id: place for place, check in enumerate(checks)}
    return sorted(finished, key=lambda each: places[each.check.id])
