# SPDX-License-Identifier: Apache-2.0
"""Pure. The verdict, findings, tables, facts and cases of `ci-doctor doctor`, and its `--list`."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, CheckStatus, DoctorCheck, Fault, FinishedCheck
from ci_doctor.checks.settings import Workload
from ci_doctor.model.facts.doctor import DoctorCheckFact, DoctorFacts
from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import Case, CaseOutcome, Outcome
from ci_doctor.model.table import Table, row, seconds, text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount

_CASES = {
    CheckStatus.OK: CaseOutcome.PASSED,
    CheckStatus.WARNING: CaseOutcome.PASSED,
    CheckStatus.UNKNOWN: CaseOutcome.SKIPPED,
    CheckStatus.ERROR: CaseOutcome.ERROR,
}


class DoctorRun(Struct, frozen=True, kw_only=True):
    """A run of checks. `not_run` maps a check that makes no sense here to the reason.

    `fixed` are the changes made by `--fix`, in words; `would_fix` those that a dry run left out;
    `not_fixed` maps those that failed to the reason.
    """

    finished: tuple[FinishedCheck, ...]
    not_run: Mapping[DoctorCheck, str]
    workload: Workload | None
    strict: bool
    fixed: tuple[str, ...] = ()
    would_fix: tuple[str, ...] = ()
    not_fixed: Mapping[str, str] = {}


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
    findings: list[Finding] = []
    for each in finished:
        findings.extend(problem.finding for problem in each.result.problems)
    return tuple(findings)


def _tables(run: DoctorRun, *, show_all: bool) -> tuple[Table, ...]:
    tables = []
    if show_all:
        tables.append(_every_check(run.finished))
    measured = [each for each in run.finished if each.check.is_measurement]
    known = [each for each in measured if each.result.unknown is None]
    if known and not show_all:
        tables.append(_measured(known))
    unknown = [each for each in run.finished if each.result.unknown is not None]
    if unknown and not show_all:
        tables.append(_unknown(unknown))
    tables += _changes(run)
    if run.not_run:
        tables.append(_not_run(run.not_run, show_all=show_all))
    return tuple(tables)


def _changes(run: DoctorRun) -> list[Table]:
    """What `--fix` has changed, would change, and could not change."""
    tables = []
    if run.fixed:
        tables.append(text_table("Fixed", run.fixed))
    if run.would_fix:
        tables.append(text_table("Would fix", run.would_fix))
    if run.not_fixed:
        rows = [row(words, reason) for words, reason in run.not_fixed.items()]
        tables.append(Table(title="Not fixed", rows=tuple(rows)))
    return tables


def _every_check(finished: Sequence[FinishedCheck]) -> Table:
    rows = []
    for each in finished:
        status = str(each.result.status)
        rows.append(row(each.check.id, status, seconds(each.duration_s), each.result.summary))
    columns = ("status", "time", "observed")
    return Table(title="Checks", columns=columns, rows=tuple(rows), is_aside=True)


def _measured(finished: Sequence[FinishedCheck]) -> Table:
    rows = [row(each.check.id, each.result.summary) for each in finished]
    return Table(title="Measured", rows=tuple(rows))


def _unknown(unknown: Sequence[FinishedCheck]) -> Table:
    reasons = {each.check: each.result.unknown or "" for each in unknown}
    rows = [row(reason, _ids(checks)) for reason, checks in _by_reason(reasons).items()]
    return Table(title="Unknown", rows=tuple(rows), is_aside=True)


def _not_run(not_run: Mapping[DoctorCheck, str], *, show_all: bool) -> Table:
    """With `show_all` the ids; otherwise how many checks of which areas."""
    names = _ids if show_all else _by_area
    rows = [row(reason, names(checks)) for reason, checks in _by_reason(not_run).items()]
    return Table(title="Not run", rows=tuple(rows), is_aside=True)


def _by_reason(reasons: Mapping[DoctorCheck, str]) -> dict[str, list[DoctorCheck]]:
    """A row for each reason: a machine without a GPU has one line, and not ten."""
    checks: dict[str, list[DoctorCheck]] = {}
    for check, reason in reasons.items():
        checks.setdefault(reason, []).append(check)
    return checks


def _ids(checks: Sequence[DoctorCheck]) -> str:
    return ", ".join(check.id for check in checks)


def _by_area(checks: Sequence[DoctorCheck]) -> str:
    """`gpu (10 checks), network (2 checks)`."""
    counts = Counter(check.area for check in checks)
    return ", ".join(f"{area} ({amount(count, 'check')})" for area, count in counts.items())


def _facts(run: DoctorRun) -> DoctorFacts:
    return DoctorFacts(
        workload=run.workload,
        strict=run.strict,
        checks=tuple(_fact(each, run.workload) for each in run.finished),
        not_run={check.id: reason for check, reason in run.not_run.items()},
        fixed=run.fixed,
        would_fix=run.would_fix,
        not_fixed=dict(run.not_fixed),
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


def _message(result: CheckResult) -> str | None:
    """What is wrong, the worst first; else why it is unknown. None if it is ok."""
    if result.status is CheckStatus.OK:
        return None
    severities = list(Severity)
    findings = [each.finding for each in result.problems]
    findings = [each for each in findings if each.severity is not Severity.NOTE]
    findings.sort(key=lambda finding: severities.index(finding.severity))
    sentences = [each.summary for each in findings]
    if result.status is CheckStatus.UNKNOWN or not sentences:
        sentences.insert(0, result.unknown or result.summary)
    return "; ".join(sentences)


def _case(finished: FinishedCheck) -> Case:
    result = finished.result
    return Case(
        group=f"doctor.{finished.check.area}",
        name=finished.check.id,
        outcome=_CASES[result.status],
        message=_message(result),
        duration_s=finished.duration_s,
    )


def verdict_of(
    finished: Sequence[FinishedCheck], workload: Workload | None, *, strict: bool
) -> Verdict:
    """The verdict that stands first of those that apply.

    `failed` for an error of the repository, which no other agent cures; `infra` for one of the
    environment; `void` if `strict` and a needed check is unknown, if nothing at all is known, or if
    measurements were asked for and none could be made.
    """
    faults = _faults(finished)
    if Fault.REPOSITORY in faults:
        return Verdict.FAILED
    if Fault.ENVIRONMENT in faults:
        return Verdict.INFRA
    measurements = [each for each in finished if each.check.is_measurement]
    if _is_nothing_known(finished) or (measurements and _is_nothing_known(measurements)):
        return Verdict.VOID
    if strict and needed_unknowns(finished, workload):
        return Verdict.VOID
    return Verdict.PASS


def _is_nothing_known(finished: Sequence[FinishedCheck]) -> bool:
    return all(each.result.unknown is not None for each in finished)


def is_needed(check: DoctorCheck, workload: Workload | None) -> bool:
    """Whether `check` must be known for `workload`; without one, each check must."""
    return workload is None or workload in check.needed_for


def needed_unknowns(
    finished: Sequence[FinishedCheck], workload: Workload | None
) -> list[FinishedCheck]:
    """The checks that are needed and have an unknown part."""
    return [
        each
        for each in finished
        if each.result.unknown is not None and is_needed(each.check, workload)
    ]


def summary_of(
    finished: Sequence[FinishedCheck], workload: Workload | None, verdict: Verdict
) -> str:
    """One sentence: fit or not, and how many checks ended how."""
    purpose = f" for {workload}" if workload else ""
    counts = _counts(finished)
    match verdict:
        case Verdict.PASS if any(each.result.unknown is not None for each in finished):
            return f"as far as is known, this machine is fit{purpose}: {counts}"
        case Verdict.PASS:
            return f"this machine is fit{purpose}: {counts}"
        case Verdict.VOID:
            return f"it is unknown whether this machine is fit{purpose}: {counts}"
        case _:
            return f"this machine is not fit{purpose}: {counts}"


def _counts(finished: Sequence[FinishedCheck]) -> str:
    if not finished:
        return "nothing was checked"
    texts = []
    for status in CheckStatus:
        count = sum(each.result.status is status for each in finished)
        if count:
            texts.append(f"{count} {_WORDS[status]}{_plural(status, count)}")
    return ", ".join(texts)


_WORDS = {
    CheckStatus.ERROR: "error",
    CheckStatus.UNKNOWN: "unknown",
    CheckStatus.WARNING: "warning",
    CheckStatus.OK: "ok",
}


def _plural(status: CheckStatus, count: int) -> str:
    if count == 1 or status in {CheckStatus.OK, CheckStatus.UNKNOWN}:
        return ""
    return "s"


def _faults(finished: Sequence[FinishedCheck]) -> set[Fault]:
    faults = set()
    for each in finished:
        for problem in each.result.problems:
            if problem.finding.severity is Severity.ERROR:
                faults.add(problem.fault)
    return faults


def listing_outcome(checks: Sequence[DoctorCheck]) -> Outcome:
    """The id and the title of each check; nothing is judged."""
    rows = [row(check.id, check.title) for check in checks]
    table = Table(title="Checks", rows=tuple(rows))
    return Outcome(verdict=None, summary=f"{len(checks)} checks", tables=(table,))
