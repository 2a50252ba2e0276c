# SPDX-License-Identifier: Apache-2.0
"""Reads the clock, and compares it with the commit, the files and the interpreter. No network."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    DoctorCheck,
    Problem,
    UndeterminedError,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.clock_state import ClockState, read_clock_state
from ci_doctor.checks.machine.dates import (
    Dated,
    interpreter_date,
    read_commit_date,
    read_file_dates,
)
from ci_doctor.checks.machine.rules import CLOCK_BEHIND, CLOCK_INEXACT
from ci_doctor.model.finding import Severity
from ci_doctor.render.formatting import duration

# The clock of the machine that made the commit may be a little fast.
_TOLERATED_S = 300.0
_WRONG_S = 3600.0
_ESTIMATED_S = 1.0


def _run(context: CheckContext) -> CheckResult:
    now = time.time()
    reasons = []
    state = None
    try:
        state = read_clock_state()
    except UndeterminedError as error:
        reasons.append(str(error))
    dated = [*read_file_dates(context.cwd)]
    for read in (interpreter_date, lambda: read_commit_date(context)):
        try:
            one = read()
        except UndeterminedError as error:
            reasons.append(str(error))
            continue
        if one is not None:
            dated.append(one)
    return CheckResult(
        summary=f"{_sentence(state)}, time zone {time_zone(context)}",
        problems=tuple(problems_of(state, dated, now)),
        unknown="; ".join(reasons) or None,
        figures={"time_zone": time_zone(context), "compared": len(dated)},
    )


def problems_of(state: ClockState | None, dated: Sequence[Dated], now: float) -> list[Problem]:
    """What is wrong with a clock that shows `now`, if `dated` lies in the past."""
    problems = []
    if state is not None:
        problems.extend(_of_the_state(state))
    problems.extend(_of_the_dates(state, dated, now))
    return problems


def _sentence(state: ClockState | None) -> str:
    if state is None:
        return "it is unknown whether the clock is synchronised"
    if state.is_synchronised:
        return "the clock is synchronised"
    return "no program tells the kernel that it keeps the clock right"


def _of_the_state(state: ClockState) -> list[Problem]:
    """Nothing if no program keeps the clock: a hypervisor may, without the kernel's knowledge."""
    if not state.is_synchronised or state.estimated_error_s <= _ESTIMATED_S:
        return []
    error = duration(state.estimated_error_s)
    return [problem(CLOCK_INEXACT, f"the clock may be off by {error}")]


def _of_the_dates(state: ClockState | None, dated: Sequence[Dated], now: float) -> list[Problem]:
    """The worst of what lies in the future, if anything does."""
    future = [one for one in dated if one.at - now > _TOLERATED_S]
    if not future:
        return []
    latest = max(future, key=lambda one: (one.is_sure, one.at))
    behind_s = latest.at - now
    summary = f"the clock is {duration(behind_s)} behind {latest.name}"
    is_sure = latest.is_sure
    if state is not None and state.is_synchronised:
        # Then the date is wrong rather than the clock: git takes any date for a commit.
        summary += ", and a program keeps the clock right"
        is_sure = False
    severity = behind_severity(behind_s, is_sure=is_sure)
    return [problem(CLOCK_BEHIND, summary, severity=severity)]


def behind_severity(behind_s: float, *, is_sure: bool) -> Severity:
    """How bad it is that the clock is so many seconds behind a date.

    If that date may be the wrong one (`is_sure` is false), it warns only.
    """
    if behind_s > _WRONG_S and is_sure:
        return Severity.ERROR
    return Severity.WARNING


def time_zone(context: CheckContext) -> str:
    """TZ, or the name of the file that /etc/localtime stands for."""
    named = context.environ.get("TZ")
    if named:
        return named
    try:
        target = Path(os.readlink(context.root / "etc" / "localtime"))  # noqa: PTH115
    except OSError:
        return time.tzname[0]
    parts = target.parts
    if "zoneinfo" not in parts:
        return time.tzname[0]
    return "/".join(parts[parts.index("zoneinfo") + 1 :])


CHECK = DoctorCheck(
    id="machine/clock",
    title="the clock",
    cost=Cost.PROGRAM,
    run=_run,
)
