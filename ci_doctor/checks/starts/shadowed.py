# SPDX-License-Identifier: Apache-2.0
"""Reads which sitecustomize and usercustomize never run, and which the job itself brings."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.starts.observed import known_starts, unknown_starts
from ci_doctor.preload.start_files import SHADOWED, SITECUSTOMIZE_OF_THE_JOB
from ci_doctor.render.formatting import amount

_RULES = frozenset({SHADOWED.id, SITECUSTOMIZE_OF_THE_JOB.id})


def _run(context: CheckContext) -> CheckResult:
    starts = known_starts(context)
    problems: list[Problem] = []
    never = 0
    for start in starts:
        if start.inventory is None:
            continue
        never += len(start.inventory.never)
        findings = [each for each in start.inventory.findings if each.rule in _RULES]
        problems.extend(Problem(finding=each) for each in findings)
    summary = "each sitecustomize and usercustomize runs"
    if never:
        summary = f"{amount(never, 'file')} named sitecustomize or usercustomize never run"
    return CheckResult(summary=summary, problems=tuple(problems), unknown=unknown_starts(starts))


CHECK = DoctorCheck(
    id="starts/shadowed",
    title="each sitecustomize and usercustomize runs",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    run=_run,
)
