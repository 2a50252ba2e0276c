# SPDX-License-Identifier: Apache-2.0
"""What stands first in every rendering: one word, one symbol, one tone."""

from enum import StrEnum
from typing import NamedTuple, assert_never

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict


class Tone(StrEnum):
    """How loud a report is, in the words of `buildkite-agent annotate --style`."""

    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"


class Headline(NamedTuple):
    """`✗ REGRESSION` in pieces."""

    word: str
    symbol: str
    tone: Tone


_ENDINGS: dict[Verdict | None, Headline] = {
    None: Headline("ERROR", "✗", Tone.ERROR),
    Verdict.PASS: Headline("PASS", "✓", Tone.SUCCESS),
    Verdict.FLAKY: Headline("FLAKY", "~", Tone.WARNING),
    Verdict.REGRESSION: Headline("REGRESSION", "✗", Tone.ERROR),
    Verdict.NONDETERMINISTIC: Headline("NONDETERMINISTIC", "≠", Tone.WARNING),
    Verdict.INFRA: Headline("INFRA", "!", Tone.WARNING),
    Verdict.INCONCLUSIVE: Headline("INCONCLUSIVE", "?", Tone.ERROR),
    Verdict.VOID: Headline("VOID", "∅", Tone.ERROR),
}


def headline(report: Report) -> Headline:
    """The first words of `report`.

    A `pass` or `flaky` beside a finding of severity error says FAILED, because the command ends with exit code 1. No
    verdict beside exit code 0 is a dry run, which nothing went wrong in.
    """
    if report.verdict is None and report.exit_code == 0:
        return Headline("NO VERDICT", "·", Tone.WARNING)
    if report.verdict in {Verdict.PASS, Verdict.FLAKY} and errors(report):
        return Headline("FAILED", "✗", Tone.ERROR)
    return _ENDINGS[report.verdict]


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
    return tuple(finding for finding in report.findings if finding.severity is Severity.ERROR)


def worst_first(report: Report) -> list[Finding]:
    """All findings: errors, warnings, notes, and in the report's order among equals."""
    order = list(Severity)
    return sorted(report.findings, key=lambda finding: order.index(finding.severity))
