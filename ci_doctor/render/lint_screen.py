# SPDX-License-Identifier: Apache-2.0
"""Pure. What lint reports -> lines for a terminal."""

from collections.abc import Iterator
from itertools import groupby

from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Report
from ci_doctor.render.formatting import one_line, place, symbol
from ci_doctor.render.layout import StyledTerminal, clip, wrap

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_WORST_FIRST = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
_MOST_SHOWN = 200
_RELATED_SHOWN = 3
_EXCERPT_LINES = 4


def is_lint(report: Report) -> bool:
    """Whether `report` is one of `ci-doctor lint`."""
    return "lint_files" in report.facts


def lint_blocks(report: Report, terminal: StyledTerminal) -> Iterator[list[str]]:
    """A block for each file with its findings, the first 200 of them.

    `report` is cleaned (`safe_text.cleaned`), and is one of lint (`is_lint`).
    """
    shown = report.findings[:_MOST_SHOWN]
    for file, findings in groupby(shown, key=_file):
        lines = [terminal.path(file)] if file else []
        for finding in findings:
            lines += _lines(finding, terminal)
        yield lines
    rest = len(report.findings) - len(shown)
    unreported = report.facts.get("unreported")
    if isinstance(unreported, int):
        rest += unreported
    if rest > 0:
        yield [f"… and {rest} more: --json, or --report-dir DIR"]
    if shown:
        worst = min(shown, key=lambda each: _WORST_FIRST.index(each.severity))
        rule = one_line(worst.rule)
        yield [terminal.dim(f"ci-doctor explain {rule}  # why, and what to write")]


def _file(finding: Finding) -> str:
    """The file in which a finding stands; empty for one of no file."""
    if not finding.evidence or finding.evidence[0].line is None:
        return ""
    return one_line(finding.evidence[0].file or "")


def _lines(finding: Finding, terminal: StyledTerminal) -> list[str]:
    """The line number, the sentence, the line as it stands, and what to write instead."""
    style = _STYLES[finding.severity]
    first = finding.evidence[0] if finding.evidence else Evidence()
    number = "" if first.line is None else f"{first.line} "
    start = f"  {symbol(finding.severity)} {number}"
    column = " " * len(start)
    sentence, *more = wrap(one_line(finding.summary), terminal.width, first=start, rest=column)
    mark = terminal.paint(start.rstrip(), f"bold {style}")
    lines = [f"{mark} {terminal.bold(sentence[len(start) :])}", *map(terminal.bold, more)]
    # Each line on one row: it is for finding the place, and not for copying.
    for line in (first.excerpt or "").strip("\n").split("\n")[:_EXCERPT_LINES]:
        if line.strip():
            row = clip(f"{column}│ {line}", terminal.width).rstrip()
            lines.append(terminal.dim(row))
    for each in finding.evidence[1 : _RELATED_SHOWN + 1]:
        # The name of their common file stands above.
        is_here = each.file == first.file and each.line is not None
        where = f"line {each.line}" if is_here else place(each)
        if where is not None:
            lines.append(f"{column}see {terminal.path(where)}")
    if finding.remedy:
        lines += _remedy(finding, finding.remedy, column, terminal)
    severity = terminal.paint(finding.severity.value, style)
    lines.append(f"{column}{severity}{terminal.dim(f' · {one_line(finding.rule)}')}")
    return lines


def _remedy(finding: Finding, remedy: str, column: str, terminal: StyledTerminal) -> list[str]:
    """A sentence is wrapped; code keeps its lines."""
    label = f"{column}try: "
    below = " " * len(label)
    if finding.is_advice:
        return wrap(one_line(remedy), terminal.width, first=label, rest=below)
    first, *more = remedy.strip("\n").split("\n")
    return [f"{label}{first}", *(f"{below}{line}".rstrip() for line in more)]
