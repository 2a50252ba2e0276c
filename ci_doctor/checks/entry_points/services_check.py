# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: imports what the configured services import at their start."""

from msgspec.structs import replace

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points.combined import probe_result
from ci_doctor.checks.entry_points.entry_point import EntryCommand
from ci_doctor.checks.entry_points.of_service import NoProgram, entry_point_of_service
from ci_doctor.checks.entry_points.rules import ENTRY_POINT_MISSING
from ci_doctor.checks.settings import ALL


def _run(context: CheckContext) -> CheckResult:
    entries: list[EntryCommand] = []
    passed_over: list[str] = []
    unreadable: list[str] = []
    missing: list[Problem] = []
    for name, spec in context.services.items():
        try:
            entry = entry_point_of_service(name, spec, context.environ, context.cwd)
        except ValueError as error:
            unreadable.append(f"the command of {name}: {error}")
            continue
        match entry:
            case EntryCommand():
                entries.append(entry)
            case NoProgram():
                missing.append(_missing(entry))
            case str():
                passed_over.append(f"{name}: {entry}")
    none = "; ".join(passed_over) or "no service is started by a console script of Python"
    result = probe_result(entries, context, none=none, problems=missing)
    if entries or missing:
        result = replace(result, summary="; ".join((result.summary, *passed_over)))
    if unreadable:
        reasons = filter(None, (result.unknown, *unreadable))
        result = replace(result, unknown="; ".join(reasons))
    return result


def _missing(entry: NoProgram) -> Problem:
    summary = f"service {entry.service} cannot start: there is no program `{entry.program}`"
    return problem(ENTRY_POINT_MISSING, summary)


CHECK = DoctorCheck(
    id="imports/services",
    title="the configured services' console scripts can be imported",
    need=Need.SERVICES,
    cost=Cost.IMPORT,
    needed_for=ALL,
    run=_run,
)
