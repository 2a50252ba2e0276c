# SPDX-License-Identifier: Apache-2.0
"""Pure. What lint reports -> annotations of GitHub beside the changed lines.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from collections import Counter
from collections.abc import Iterator

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.report import Report
from ci_doctor.render.ci_log import annotation
from ci_doctor.render.headline import worst_first
from ci_doctor.render.safe_text import cleaned, one_line

_KINDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_MESSAGE_CHARACTERS = 2000


def render(report: Report) -> str:
    """A line for each finding of `report`, the worst ones first, and the summary as the last line."""
    report = cleaned(report)
    lines = [_annotation(finding) for finding in worst_first(report)]
    sentence = report.summary if report.error is None else report.error.message
    if report.error is not None or (report.exit_code and not lines):
        lines.append(annotation("error", sentence, title="ci-doctor lint"))
    return "".join((*lines, f"{one_line(sentence)}\n"))


def first_annotations(report: Report, most: int) -> Iterator[str]:
    """The lines of the worst findings, at most `most` of a kind: GitHub shows ten of each."""
    counts: Counter[Severity] = Counter()
    for finding in worst_first(report):
        counts[finding.severity] += 1
        if counts[finding.severity] <= most:
            yield _annotation(finding)


def _annotation(finding: Finding) -> str:
    first = finding.evidence[0] if finding.evidence else None
    message = finding.summary
    if finding.remedy:
        message = f"{message}\ntry: {finding.remedy}"
    return annotation(
        _KINDS[finding.severity],
        message[:_MESSAGE_CHARACTERS],
        title=finding.rule,
        file=None if first is None else first.file,
        line=None if first is None else first.line,
        endLine=None if first is None else first.end_line,
    )
