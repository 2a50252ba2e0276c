# SPDX-License-Identifier: Apache-2.0
"""Pure. The verdict, findings, tables, facts and cases of `ci-doctor doctor`, and its `--list`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from ci_doctor.checks.check import CheckStatus, DoctorCheck, Fault, FinishedCheck
from ci_doctor.checks.settings import Workload
from ci_doctor.model.facts.preparing import DoctorCheckFact, DoctorFacts
from ci_doctor.model.outcome import (
    Case,
    CaseOutcome,
    Outcome,
    Severity,
    Table,
    Verdict,
    row,
    seconds,
    text_table,
)
from ci_doctor.render.formatting import amount


class DoctorRun(Struct, frozen=True, kw_only=True):
    """A run of checks. `not_run` maps a check that makes no sense here to the reason, `areas` were asked for by name.

    `fixed` are the changes made by `--fix`, in words; `would_fix` those that a dry run left out;
    `not_fixed` maps those that failed to the reason.
    """

    finished: tuple[FinishedCheck, ...]
    not_run: Mapping[DoctorCheck, str]
    areas: tuple[str, ...] = ()
    workload: Workload | None
    strict: bool
    fixed: tuple[str, ...] = ()
    would_fix: tuple[str, ...] = ()
    not_fixed: Mapping[str, str] = {}


def outcome_of(run: DoctorRun, *, show_all: bool = False) -> Outcome:
    """What `run` says. With `show_all` each check has a row, otherwise only what is not ok."""
    verdict = verdict_of(run.finished, run.workload, strict=run.strict)
    if verdict is Verdict.PASS and any(_is_absent(run, area) for area in run.areas):
        verdict = Verdict.VOID
    return Outcome(
        verdict=verdict,
        summary=summary_of(run.finished, run.workload, verdict),
        findings=tuple(found.finding for each in run.finished for found in each.result.problems),
        tables=tuple(_tables(run, show_all=show_all)),
        facts=DoctorFacts(
            workload=run.workload,
            strict=run.strict,
            checks=tuple(
                DoctorCheckFact(
                    id=each.check.id,
                    title=each.check.title,
                    status=each.result.status,
                    summary=each.result.summary,
                    unknown=each.result.unknown,
                    problems=tuple(found.finding.rule for found in each.result.problems),
                    is_needed=is_needed(each.check, run.workload),
                    milliseconds=None
                    if each.duration_s is None
                    else round(each.duration_s * 1000, 1),
                    figures=dict(each.result.figures),
                )
                for each in run.finished
            ),
            not_run={check.id: reason for check, reason in run.not_run.items()},
            fixed=run.fixed,
            would_fix=run.would_fix,
            not_fixed=dict(run.not_fixed),
        ),
        cases=tuple(_case(each) for each in run.finished),
    )


def _is_absent(run: DoctorRun, area: str) -> bool:
    """Whether most checks of the area make no sense here: what they are about is missing."""
    made = sum(each.check.area == area for each in run.finished)
    return made < sum(check.area == area for check in run.not_run)


def _tables(run: DoctorRun, *, show_all: bool) -> Iterator[Table]:
    reasons = {
        each.check: each.result.unknown for each in run.finished if each.result.unknown is not None
    }
    measured = [
        each for each in run.finished if each.check.is_measurement and each.result.unknown is None
    ]
    if show_all:
        yield Table(
            title="Checks",
            columns=("status", "time", "observed"),
            rows=tuple(
                row(
                    each.check.id,
                    str(each.result.status),
                    seconds(each.duration_s),
                    each.result.summary,
                )
                for each in run.finished
            ),
            is_aside=True,
        )
    elif measured:
        yield Table(
            title="Measured",
            rows=tuple(row(each.check.id, each.result.summary) for each in measured),
        )
    if reasons and not show_all:
        yield _by_reason("Unknown", reasons, _ids)
    if run.fixed:
        yield text_table("Fixed", run.fixed)
    if run.would_fix:
        yield text_table("Would fix", run.would_fix)
    if run.not_fixed:
        yield Table(
            title="Not fixed",
            rows=tuple(row(words, reason) for words, reason in run.not_fixed.items()),
        )
    if run.not_run:
        # With `show_all` the ids; otherwise how many checks of which areas.
        yield _by_reason("Not run", run.not_run, _ids if show_all else _areas)


def _by_reason(
    title: str,
    reasons: Mapping[DoctorCheck, str],
    names: Callable[[Sequence[DoctorCheck]], str],
) -> Table:
    """A row for each reason: a machine without a GPU has one line, and not ten."""
    checks: dict[str, list[DoctorCheck]] = {}
    for check, reason in reasons.items():
        checks.setdefault(reason, []).append(check)
    rows = [row(reason, names(each)) for reason, each in checks.items()]
    return Table(title=title, rows=tuple(rows), is_aside=True)


def _ids(checks: Sequence[DoctorCheck]) -> str:
    return ", ".join(check.id for check in checks)


def _areas(checks: Sequence[DoctorCheck]) -> str:
    """`gpu (10 checks), network (2 checks)`."""
    counts = Counter(check.area for check in checks)
    return ", ".join(f"{area} ({amount(count, 'check')})" for area, count in counts.items())


def _case(finished: FinishedCheck) -> Case:
    """With what is wrong, the worst first, and why it is unknown; without a message if it is ok."""
    status, result = finished.result.status, finished.result
    severities = list(Severity)
    findings = [each.finding for each in result.problems]
    serious = [each for each in findings if each.severity is not Severity.NOTE]
    serious.sort(key=lambda finding: severities.index(finding.severity))
    sentences = [each.summary for each in serious]
    if status is CheckStatus.UNKNOWN or not sentences:
        sentences.insert(0, result.unknown or result.summary)
    outcome = CaseOutcome.PASSED
    if status is CheckStatus.UNKNOWN:
        outcome = CaseOutcome.SKIPPED
    elif status is CheckStatus.ERROR:
        outcome = CaseOutcome.ERROR
    return Case(
        group=f"doctor.{finished.check.area}",
        name=finished.check.id,
        outcome=outcome,
        message=None if status is CheckStatus.OK else "; ".join(sentences),
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
    problems = [problem for each in finished for problem in each.result.problems]
    errors = [each for each in problems if each.finding.severity is Severity.ERROR]
    unknown = [each for each in finished if each.result.unknown is not None]
    measured = [each for each in finished if each.check.is_measurement]
    if any(each.fault is Fault.REPOSITORY for each in errors):
        return Verdict.FAILED
    if errors:
        return Verdict.INFRA
    if len(unknown) == len(finished) or (
        measured and all(each.result.unknown is not None for each in measured)
    ):
        return Verdict.VOID
    if strict and any(is_needed(each.check, workload) for each in unknown):
        return Verdict.VOID
    return Verdict.PASS


def is_needed(check: DoctorCheck, workload: Workload | None) -> bool:
    """Whether `check` must be known for `workload`; without one, each check must."""
    return workload is None or workload in check.needed_for


def summary_of(
    finished: Sequence[FinishedCheck], workload: Workload | None, verdict: Verdict
) -> str:
    """One sentence: fit or not, and how many checks ended how."""
    purpose = f" for {workload}" if workload else ""
    texts = []
    for status in CheckStatus:
        count = sum(each.result.status is status for each in finished)
        is_counted_alike = status in {CheckStatus.OK, CheckStatus.UNKNOWN}
        if count:
            texts.append(f"{count} {status}" if is_counted_alike else amount(count, status.value))
    counts = ", ".join(texts) or "nothing was checked"
    match verdict:
        case Verdict.PASS if any(each.result.unknown is not None for each in finished):
            return f"as far as is known, this machine is fit{purpose}: {counts}"
        case Verdict.PASS:
            return f"this machine is fit{purpose}: {counts}"
        case Verdict.VOID:
            return f"it is unknown whether this machine is fit{purpose}: {counts}"
        case _:
            return f"this machine is not fit{purpose}: {counts}"


def listing_outcome(checks: Sequence[DoctorCheck]) -> Outcome:
    """The id and the title of each check; nothing is judged."""
    table = Table(title="Checks", rows=tuple(row(check.id, check.title) for check in checks))
    return Outcome(verdict=None, summary=f"{len(checks)} checks", tables=(table,))
