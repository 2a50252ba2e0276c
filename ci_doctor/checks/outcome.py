# SPDX-License-Identifier: Apache-2.0
"""Pure. The outcome of `ci-doctor doctor`: findings, tables, facts and cases."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.checks.check import DoctorCheck, FinishedCheck
from ci_doctor.checks.conclude import is_needed, summary_of, verdict_of
from ci_doctor.checks.result import CheckStatus
from ci_doctor.checks.workload import Workload
from ci_doctor.model.facts.doctor import DoctorCheckFact, DoctorFacts
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Case, CaseOutcome, Outcome
from ci_doctor.model.table import Table, row, seconds

_CASES = {
    CheckStatus.OK: CaseOutcome.PASSED,
    CheckStatus.WARNING: CaseOutcome.PASSED,
    CheckStatus.UNKNOWN: CaseOutcome.SKIPPED,
    CheckStatus.ERROR: CaseOutcome.ERROR,
}


class DoctorRun(Struct, frozen=True, kw_only=True):
    """A run of checks. `not_run` maps a check that makes no sense here to the reason."""

    finished: tuple[FinishedCheck, ...]
    not_run: Mapping[DoctorCheck, str]
    workload: Workload | None
    strict: bool
    fixed: tuple[str, ...] = ()


def outcome_of(run: DoctorRun, *, show_all: bool = False) -> Outcome:
    """What `run` says. With `show_all` each check has a row, otherwise only what is not ok."""
    verdict = verdict_of(run.finished, run.workload, strict=run.strict)
    return Outcome(
        verdict=verdict,
        summary=summary_of(run.finished, run.workload, verdict),
        findings=_findings(run.finished),
        tables=_tables(run, show_all=show_all),
        facts=_facts(run),
        cases=tuple(_case(each) for each in run.finished),
    )


def _findings(finished: Sequence[FinishedCheck]) -> tuple[Finding, ...]:
    return tuple(problem.finding for each in finished for problem in each.result.problems)


def _tables(run: DoctorRun, *, show_all: bool) -> tuple[Table, ...]:
    tables = []
    if show_all:
        tables.append(_every_check(run.finished))
    unknown = [each for each in run.finished if each.result.unknown is not None]
    if unknown and not show_all:
        rows = [row(each.check.id, each.result.unknown) for each in unknown]
        tables.append(Table(title="Unknown", rows=tuple(rows)))
    if run.fixed:
        rows = [row(words) for words in run.fixed]
        tables.append(Table(title="Fixed", rows=tuple(rows)))
    if run.not_run:
        tables.append(_not_run(run.not_run))
    return tuple(tables)


def _every_check(finished: Sequence[FinishedCheck]) -> Table:
    rows = []
    for each in finished:
        status = str(each.result.status)
        rows.append(row(each.check.id, status, each.result.summary, seconds(each.duration_s)))
    return Table(title="Checks", columns=("status", "observed", "time"), rows=tuple(rows))


def _not_run(not_run: Mapping[DoctorCheck, str]) -> Table:
    """By reason: a machine without a GPU has one line, and not ten."""
    by_reason: dict[str, list[str]] = {}
    for check, reason in not_run.items():
        by_reason.setdefault(reason, []).append(check.id)
    rows = [row(reason, ", ".join(ids)) for reason, ids in by_reason.items()]
    return Table(title="Not run", rows=tuple(rows))


def _facts(run: DoctorRun) -> DoctorFacts:
    return DoctorFacts(
        workload=run.workload,
        strict=run.strict,
        checks=tuple(_fact(each, run.workload) for each in run.finished),
        not_run={check.id: reason for check, reason in run.not_run.items()},
        fixed=run.fixed,
    )


def _fact(finished: FinishedCheck, workload: Workload | None) -> DoctorCheckFact:
    check, result = finished.check, finished.result
    milliseconds = None
    if finished.duration_s is not None:
        milliseconds = round(finished.duration_s * 1000, 1)
    return DoctorCheckFact(
        id=check.id,
        title=check.title,
        status=result.status,
        summary=result.summary,
        unknown=result.unknown,
        problems=tuple(each.finding.rule for each in result.problems),
        is_needed=is_needed(check, workload),
        milliseconds=milliseconds,
        figures=dict(result.figures),
    )


def _case(finished: FinishedCheck) -> Case:
    result = finished.result
    message = None if result.status is CheckStatus.OK else result.summary
    return Case(
        group=f"doctor.{finished.check.area}",
        name=finished.check.id,
        outcome=_CASES[result.status],
        message=message,
        duration_s=finished.duration_s,
    )
