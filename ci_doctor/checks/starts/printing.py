# SPDX-License-Identifier: Apache-2.0
"""Reads which files that run at each start of an interpreter write to stdout."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.starts.observed import known_starts, unknown_starts
from ci_doctor.checks.starts.rules import START_FILE_PRINTS
from ci_doctor.model.finding import Evidence
from ci_doctor.render.formatting import amount


def _run(context: CheckContext) -> CheckResult:
    starts = known_starts(context)
    problems = []
    for start in starts:
        for file in start.files:
            if file.prints:
                summary = f"{file.path} writes to stdout at every start of {start.python}"
                evidence = (Evidence(file=file.path),)
                problems.append(problem(START_FILE_PRINTS, summary, evidence=evidence))
    summary = "nothing is written to stdout at a start of Python"
    if problems:
        summary = f"{amount(len(problems), 'file')} wrote to stdout at a start of Python"
    return CheckResult(summary=summary, problems=tuple(problems), unknown=unknown_starts(starts))


CHECK = DoctorCheck(
    id="starts/printing",
    title="nothing is written to stdout at a start of Python",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    run=_run,
)
