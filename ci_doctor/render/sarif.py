# SPDX-License-Identifier: Apache-2.0
"""Pure. Report -> SARIF 2.1.0, for code scanning: the root cause, or what lint reports, in source code.

The format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from typing import Any, Final

import msgspec

from ci_doctor.model.facts.diagnose import SourcePlace
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.report import Report
from ci_doctor.render.lint_screen import is_lint
from ci_doctor.render.safe_text import cleaned, encodable, one_line
from ci_doctor.render.sarif_lint import lint_results, lint_rules
from ci_doctor.render.sarif_places import LEVELS, location

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT: Final = "ciDoctorRootCause/v1"


def render(report: Report) -> str:
    """`report` as an indented SARIF log with one run, with a newline at the end.

    It has a result for each finding of lint, one if a diagnosis names a source file, and none
    otherwise: then a notification holds the summary. Relative paths stay relative; a reader takes them from the repository's root.
    """
    report = encodable(cleaned(report))
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [_run(report)]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _run(report: Report) -> dict[str, Any]:
    source = _source(report)
    results: list[dict[str, Any]] = []
    rules: list[dict[str, Any]] = []
    if is_lint(report):
        results = lint_results(report)
        rules = lint_rules(report)
    elif source is not None and report.findings:
        finding = report.findings[0]
        results.append(_result(report, finding, source))
        rules.append(_rule(report, finding))
    driver = {"name": "ci-doctor", "version": report.tool_version, "rules": rules}
    return {
        "tool": {"driver": driver},
        "invocations": [_invocation(report, has_result=bool(results))],
        "results": results,
        "columnKind": "unicodeCodePoints",
    }


def _source(report: Report) -> SourcePlace | None:
    try:
        return msgspec.convert(report.facts.get("source"), SourcePlace | None)
    except msgspec.ValidationError:
        return None


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


def _rule(report: Report, finding: Finding) -> dict[str, Any]:
    cause = _cause(report)
    rule: dict[str, Any] = {
        "id": one_line(finding.rule),
        "defaultConfiguration": {"level": LEVELS[finding.severity]},
    }
    title = cause.get("title")
    if title:
        rule["shortDescription"] = {"text": one_line(str(title))}
    if finding.remedy:
        rule["help"] = {"text": finding.remedy}
    return rule


def _result(report: Report, finding: Finding, source: SourcePlace) -> dict[str, Any]:
    cause = _cause(report)
    result: dict[str, Any] = {
        "ruleId": one_line(finding.rule),
        "ruleIndex": 0,
        "level": LEVELS[finding.severity],
        "message": {"text": one_line(finding.summary)},
        "locations": [location(source.file, source.line, column=source.column)],
    }
    related = _related(finding.evidence)
    if related is not None:
        result["relatedLocations"] = [related]
    if cause.get("fingerprint"):
        result["partialFingerprints"] = {_FINGERPRINT: str(cause["fingerprint"])}
    if isinstance(cause.get("confidence"), int | float):
        result["rank"] = round(100 * cause["confidence"], 1)
    return result


def _cause(report: Report) -> dict[str, Any]:
    cause = report.facts.get("root_cause")
    return cause if isinstance(cause, dict) else {}


def _related(evidence: tuple[Evidence, ...]) -> dict[str, Any] | None:
    """The line of the log that names the cause."""
    if not evidence or evidence[0].file is None:
        return None
    related = location(evidence[0].file, evidence[0].line)
    related["id"] = 1
    related["message"] = {"text": "the line of the log that names the cause"}
    return related
