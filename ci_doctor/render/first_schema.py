# SPDX-License-Identifier: Apache-2.0
"""Pure. Reports of schema ci-doctor/report/1, read as those of today."""

from typing import Any

from ci_doctor.model.report import SCHEMA

FIRST_SCHEMA = "ci-doctor/report/1"


def from_first(raw: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a report of the first schema, in the form of today's.

    Values of a wrong type stay as they are: the reader of today's form reports them.
    """
    report = {**raw, "schema": SCHEMA}
    # Sections were lines of text.
    sections = report.pop("sections", [])
    if isinstance(sections, list):
        report["tables"] = [_table(section) for section in sections]
    # A `pass` beside an error had the headline FAILED and exit code 1: that is `failed` today.
    findings = raw.get("findings")
    # A tuple: a damaged report may hold anything, also what cannot be hashed.
    if raw.get("verdict") in ("pass", "flaky") and _has_error(findings):
        report["verdict"] = "failed"
    # A dry run was an error with exit code 0: nothing was judged.
    if raw.get("verdict") is None and raw.get("exit_code") == 0:
        report["error"] = None
    return report


def _table(section: Any) -> Any:
    if not isinstance(section, dict):
        return section
    lines = section.get("lines")
    if not isinstance(lines, list):
        return section
    rows = [{"label": line} for line in lines]
    return {"title": section.get("title"), "rows": rows}


def _has_error(findings: Any) -> bool:
    if not isinstance(findings, list):
        return False
    for finding in findings:
        if isinstance(finding, dict) and finding.get("severity") == "error":
            return True
    return False
