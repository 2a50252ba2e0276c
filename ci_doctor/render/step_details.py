# SPDX-License-Identifier: Apache-2.0
"""Pure. What a step's annotation says of each report: a line, and folded below the rest."""

from collections.abc import Iterator, Sequence

from ci_doctor.model.finding import Finding
from ci_doctor.model.report import Report
from ci_doctor.render.formatting import amount, duration
from ci_doctor.render.headline import headline, symbol, worst_first
from ci_doctor.render.markup import code, fitted
from ci_doctor.render.step_cause import StepCause

_LINE_BYTES = 240
_NAME_BYTES = 100
_MOST_FINDINGS = 12
_MOST_FOLLOWED = 6
_MOST_REPORTS = 20


def report_line(report: Report) -> str:
    """A report in a line: its mark, its command, what it says, how long it took."""
    head = headline(report)
    mark = head.symbol if head else "·"
    name = fitted(report.command, _NAME_BYTES, code)
    summary = fitted(report.summary, _LINE_BYTES)
    return f"{mark} {name} {summary} ({duration(report.duration_s)})"


def step_details(reports: Sequence[Report], cause: StepCause | None, *, with_reports: bool) -> str:
    """A folded block: what followed from the cause, all findings, and all reports; or empty.

    `cause` is shown above it already, so a finding that says the same is left out.
    """
    lines: list[str] = []
    counts: list[str] = []
    followed = list(_followed(cause))
    if followed:
        counts.append(amount(len(followed), "consequence"))
        lines += ["What followed from the cause:", "", *followed, ""]
    findings = [each for each in _findings(reports) if not _says(cause, each)]
    if findings:
        counts.append(amount(len(findings), "finding"))
        lines += [*_finding_lines(findings), ""]
    if with_reports:
        counts.append(amount(len(reports), "report"))
        lines += [*_report_lines(reports), ""]
    if cause is not None and cause.named.fingerprint:
        lines += [
            f"Fingerprint of the cause: {fitted(cause.named.fingerprint, _NAME_BYTES, code)}",
            "",
        ]
    if not lines:
        return ""
    # Without an empty line before it, Markdown inside HTML is not read as Markdown.
    title = ", ".join(counts) or "Details"
    inside = "\n".join(lines)
    return f"<details>\n<summary>{title}</summary>\n\n{inside}\n</details>"


def _followed(cause: StepCause | None) -> Iterator[str]:
    if cause is None:
        return
    for line in cause.named.consequences[:_MOST_FOLLOWED]:
        where = fitted(line.where, _NAME_BYTES * 2, code)
        yield f"- {where} {fitted(line.message, _LINE_BYTES, code)}"


def _says(cause: StepCause | None, finding: Finding) -> bool:
    """Whether the cause above is what `finding` says."""
    if cause is None:
        return False
    # The finding of a diagnosis holds both.
    return finding.summary in {cause.named.title, cause.named.phrase}


def _findings(reports: Sequence[Report]) -> Iterator[Finding]:
    for report in reports:
        yield from worst_first(report)


def _finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings[:_MOST_FINDINGS]:
        rule = fitted(finding.rule, _NAME_BYTES, code)
        yield f"- {symbol(finding.severity)} {fitted(finding.summary, _LINE_BYTES)} {rule}"
    missing = len(findings) - _MOST_FINDINGS
    if missing > 0:
        yield f"- {amount(missing, 'more finding')}: see the full report"


def _report_lines(reports: Sequence[Report]) -> Iterator[str]:
    for report in reports[:_MOST_REPORTS]:
        yield f"- {report_line(report)}"
    missing = len(reports) - _MOST_REPORTS
    if missing > 0:
        yield f"- {amount(missing, 'more report')}: see the artifacts"
