# SPDX-License-Identifier: Apache-2.0
"""Reads what the files that run at each start of an interpreter cost."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.starts.limits import is_heavy
from ci_doctor.checks.starts.observed import ObservedStarts, known_starts, unknown_starts
from ci_doctor.checks.starts.rules import PATH_FILE_HEAVY
from ci_doctor.model.facts.preload import StartFile
from ci_doctor.model.finding import Evidence
from ci_doctor.preload.start_files import SITECUSTOMIZE_HEAVY, describe_cost
from ci_doctor.render.formatting import amount, duration

# Packages that hook into each start on purpose, and what to do if this job does not need them.
_ON_PURPOSE: Final = {
    "coverage": "it measures every process: unset COVERAGE_PROCESS_START if nothing is measured",
    "ddtrace": "it traces every process: start the job without `ddtrace-run`, or uninstall ddtrace",
    "debugpy": "it debugs every process: uninstall debugpy where nobody debugs",
}


def _run(context: CheckContext) -> CheckResult:
    starts = known_starts(context)
    files = [file for each in starts for file in each.files]
    total_us = sum(file.cost_us for file in files)
    return CheckResult(
        summary=f"{amount(len(files), 'file')} at each start of Python, {_time(total_us)} in all",
        problems=tuple(each for start in starts for each in _heavy(start)),
        unknown=unknown_starts(starts),
        figures={"files": len(files), "microseconds": total_us},
    )


def _heavy(start: ObservedStarts) -> Iterator[Problem]:
    for file in start.files:
        if not is_heavy(file.cost_us, is_customize=file.is_customize):
            continue
        rule = SITECUSTOMIZE_HEAVY if file.is_customize else PATH_FILE_HEAVY
        yield problem(
            rule,
            describe_cost(file, start.python),
            evidence=(Evidence(file=file.path),),
            remedy=_on_purpose(file),
        )


def _on_purpose(file: StartFile) -> str | None:
    """What to do about a package that is known to hook into each start; None for any other."""
    for name in file.imports:
        remedy = _ON_PURPOSE.get(name.partition(".")[0])
        if remedy is not None:
            return remedy
    return None


def _time(microseconds: int) -> str:
    return duration(microseconds / 1e6)


CHECK = DoctorCheck(
    id="starts/cost",
    title="what runs at each start of Python is cheap",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    run=_run,
)
