# SPDX-License-Identifier: Apache-2.0
"""Pure. What lint reports -> lines for a terminal, and SARIF 2.1.0 for code scanning."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ci_doctor.model.outcome import Evidence, Finding, Report, Severity
from ci_doctor.render.formatting import cleaned, encodable, one_line, place, symbol
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


# --- what lint reports -> SARIF 2.1.0, for code scanning ---


_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT: Final = "ciDoctorLint/v1"
_DIGITS: Final = 16
_LEVELS: Final = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "note",
}


def render(report: Report) -> str:
    """`report` as an indented SARIF log with one run, with a newline at the end.

    It has a result for each finding of lint, and none for another command: then a notification holds
    the summary. Relative paths stay relative; a reader takes them from the repository's root.
    """
    report = encodable(cleaned(report))
    findings = report.findings if is_lint(report) else ()
    ids = sorted({finding.rule for finding in findings})
    run = {
        "tool": {
            "driver": {
                "name": "ci-doctor",
                "version": report.tool_version,
                "rules": [_rule(report, rule) for rule in ids],
            }
        },
        "invocations": [_invocation(report, has_result=bool(findings))],
        "results": _results(findings, ids),
        "columnKind": "unicodeCodePoints",
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _invocation(report: Report, *, has_result: bool) -> dict[str, Any]:
    invocation: dict[str, Any] = {
        "executionSuccessful": report.error is None,
        "exitCode": report.exit_code,
        "startTimeUtc": report.started_at,
    }
    if not has_result:
        level = "note" if report.error is None else "error"
        sentence = report.summary if report.error is None else report.error.message
        notification = {"level": level, "message": {"text": one_line(sentence)}}
        invocation["toolExecutionNotifications"] = [notification]
    return invocation


def _rule(report: Report, rule: str) -> dict[str, Any]:
    meanings = report.facts.get("meanings")
    described: dict[str, Any] = {"id": one_line(rule)}
    meaning = meanings.get(rule) if isinstance(meanings, dict) else None
    if meaning:
        described["fullDescription"] = {"text": one_line(str(meaning))}
        described["help"] = {"text": f"{meaning}\n\nci-doctor explain {rule}"}
    return described


def _results(findings: tuple[Finding, ...], ids: list[str]) -> list[dict[str, Any]]:
    """A result for each finding, at its place, with the places that belong to it."""
    counts: Counter[str] = Counter()
    results = []
    for finding in findings:
        fingerprint = _fingerprint(finding)
        counts[fingerprint] += 1
        text = one_line(finding.summary)
        if finding.remedy:
            text = f"{text}. Try: {finding.remedy}"
        result: dict[str, Any] = {
            "ruleId": one_line(finding.rule),
            "ruleIndex": ids.index(finding.rule),
            "level": _LEVELS[finding.severity],
            "message": {"text": text},
            # Of two equal lines in a file each has a number of its own.
            "partialFingerprints": {_FINGERPRINT: f"{fingerprint}/{counts[fingerprint]}"},
        }
        places = [
            _location(evidence.file, evidence.line, evidence.end_line)
            for evidence in finding.evidence
            if evidence.file is not None
        ]
        if places:
            result["locations"] = places[:1]
        if places[1:]:
            result["relatedLocations"] = [
                {**place, "id": number} for number, place in enumerate(places[1:], start=1)
            ]
        results.append(result)
    return results


def _fingerprint(finding: Finding) -> str:
    """The same as long as the rule, the file and the text of the line are."""
    first = finding.evidence[0] if finding.evidence else None
    file = "" if first is None else first.file or ""
    text = "" if first is None else first.excerpt or ""
    line = " ".join(text.split()) or finding.summary
    digest = hashlib.sha256(f"{finding.rule}\n{file}\n{line}".encode())
    return digest.hexdigest()[:_DIGITS]


def _location(file: str, line: int | None, end_line: int | None) -> dict[str, Any]:
    """A `location` object: lines are 1-based, `end_line` is inclusive."""
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    if line is not None and line > 0:
        region = {"startLine": line}
        if end_line is not None and end_line > line:
            region["endLine"] = end_line
        physical["region"] = region
    return {"physicalLocation": physical}


def _uri(file: str) -> str:
    """A path as a URI reference (RFC 3986): an absolute one as a file's, another one as it is."""
    path = quote(one_line(file).replace("\\", "/"), safe="/")
    if path.startswith("/"):
        return f"file://{path}"
    # A colon in the first segment would make it a scheme; `quote` has replaced it.
    return path
