# SPDX-License-Identifier: Apache-2.0
"""Pure. What stands first in every form: one word, one symbol, one tone."""

from enum import StrEnum
from typing import NamedTuple, assert_never

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict


class Tone(StrEnum):
    """How urgent a report is, in the words of `buildkite-agent annotate --style`."""

    SUCCESS = "success"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Headline(NamedTuple):
    """`✗ REGRESSION` in pieces."""

    word: str
    symbol: str
    tone: Tone


_HEADLINES: dict[Verdict, Headline] = {
    Verdict.PASS: Headline("PASS", "✓", Tone.SUCCESS),
    Verdict.FLAKY: Headline("FLAKY", "~", Tone.WARNING),
    Verdict.REGRESSION: Headline("REGRESSION", "✗", Tone.ERROR),
    Verdict.FAILED: Headline("FAILED", "✗", Tone.ERROR),
    Verdict.NONDETERMINISTIC: Headline("NONDETERMINISTIC", "≠", Tone.WARNING),
    Verdict.INFRA: Headline("INFRA", "!", Tone.WARNING),
    Verdict.INCONCLUSIVE: Headline("INCONCLUSIVE", "?", Tone.ERROR),
    Verdict.VOID: Headline("VOID", "∅", Tone.ERROR),
}
_ERROR = Headline("ERROR", "✗", Tone.ERROR)
# What a job of a build has beside a verdict.
CANCELLED = "cancelled"
SOFT_FAILED = "soft-failed"
_WITHOUT_VERDICT = {
    "error": _ERROR,
    "missing": Headline("MISSING", "○", Tone.ERROR),
    CANCELLED: Headline("CANCELLED", "–", Tone.WARNING),
    SOFT_FAILED: Headline("SOFT-FAILED", "✗", Tone.WARNING),
}


def headline(report: Report) -> Headline | None:
    """The first words of `report`; None if nothing was judged and nothing went wrong."""
    if report.verdict is not None:
        return _HEADLINES[report.verdict]
    if report.error is not None:
        return _ERROR
    return None


def job_headline(verdict: str) -> Headline:
    """The first words about a job of a build: `verdict` is a verdict, or a word beside them.

    Any other word is shown as it is, and is no success.
    """
    without = _WITHOUT_VERDICT.get(verdict)
    if without is not None:
        return without
    try:
        known = Verdict(verdict)
    except ValueError:
        return Headline(verdict.upper(), "?", Tone.ERROR)
    return _HEADLINES[known]


def tone(report: Report) -> Tone:
    """How urgent `report` is."""
    head = headline(report)
    if head is None:
        return Tone.INFO
    return head.tone


def symbol(severity: Severity) -> str:
    """The mark before a finding."""
    match severity:
        case Severity.ERROR:
            return "✗"
        case Severity.WARNING:
            return "!"
        case Severity.NOTE:
            return "·"
        case _ as never:
            assert_never(never)


def errors(report: Report) -> tuple[Finding, ...]:
    """The findings of severity error, in the report's order."""
    worst = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    return tuple(worst)


def worst_first(report: Report) -> list[Finding]:
    """All findings: errors, warnings, notes, and in the report's order among equals."""
    # The enum is declared from the worst on.
    order = list(Severity)

    def rank(finding: Finding) -> int:
        return order.index(finding.severity)

    return sorted(report.findings, key=rank)
