# SPDX-License-Identifier: Apache-2.0
"""Pure. The verdict of a job by its reports, and of a build by its jobs."""

from collections.abc import Iterable
from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.outcome import CaseOutcome, Report
from ci_doctor.model.verdict import MISSING, NO_VERDICT, WORST_FIRST, Verdict, is_green, worst

FAILURES: Final = frozenset({Verdict.REGRESSION, Verdict.FAILED})


def known(word: str) -> str:
    """`word`, or `error` for one that this version does not know."""
    return word if word in WORST_FIRST else NO_VERDICT


def verdict_of_reports(reports: Iterable[Report]) -> str:
    """The worst verdict of those that judged something, or that failed without a verdict."""
    words = []
    for report in reports:
        if report.verdict is not None:
            words.append(str(report.verdict))
        elif _has_failed(report):
            words.append(NO_VERDICT)
    return worst(words)


def _has_failed(report: Report) -> bool:
    """`run` hands on its command's status without a verdict, and a diagnosis has findings alone."""
    if report.error is not None or report.exit_code != 0:
        return True
    return any(finding.severity is Severity.ERROR for finding in report.findings)


def verdict_of_build(words: Iterable[str]) -> Verdict:
    """The verdict of a build of steps that ended so; `void` without any, and where none is."""
    word = worst(words)
    if word in {NO_VERDICT, MISSING} or word not in WORST_FIRST:
        return Verdict.VOID
    return Verdict(word)


def case_outcome(word: str) -> CaseOutcome:
    """How a test case with this verdict ended."""
    if is_green(word):
        return CaseOutcome.PASSED
    return CaseOutcome.FAILED if word in FAILURES else CaseOutcome.ERROR
