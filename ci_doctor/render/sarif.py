# SPDX-License-Identifier: Apache-2.0
"""Pure. What lint reports -> SARIF 2.1.0, for code scanning.

The format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

import hashlib
from collections import Counter
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import Report
from ci_doctor.render.formatting import cleaned, encodable, one_line
from ci_doctor.render.lint_screen import is_lint

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
