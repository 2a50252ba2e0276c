# SPDX-License-Identifier: Apache-2.0
"""Pure. From the results of checks to a verdict: whether the machine is fit."""

from collections.abc import Sequence

from ci_doctor.checks.check import DoctorCheck, FinishedCheck
from ci_doctor.checks.result import CheckStatus, Fault
from ci_doctor.checks.workload import Workload
from ci_doctor.model.finding import Severity
from ci_doctor.model.verdict import Verdict


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
