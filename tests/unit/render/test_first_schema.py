# SPDX-License-Identifier: Apache-2.0
"""A report that an earlier ci-doctor wrote can still be read."""

import json as standard_json
from typing import Any

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import json, text


def an_old_report(**changes: Any) -> str:
    report = {
        "schema": "ci-doctor/report/1",
        "tool_version": "0.1.0",
        "command": "launch",
        "argv": ["launch"],
        "started_at": "2026-11-03T09:30:00.000Z",
        "duration_s": 1.5,
        "verdict": "regression",
        "error": None,
        "exit_code": 1,
        "summary": "vllm died",
        "sections": [{"title": "Services", "lines": ["vllm  died", "kv    ready"]}],
        "facts": {"services": {}},
        "findings": [],
    }
    return standard_json.dumps(report | changes)


def test_its_sections_are_tables_of_lines() -> None:
    report = json.parse(an_old_report())

    (table,) = report.tables
    assert (table.title, [row.label for row in table.rows]) == (
        "Services",
        ["vllm  died", "kv    ready"],
    )
    assert "vllm  died" in text.render(report)


def test_its_verdict_stays() -> None:
    assert json.parse(an_old_report()).verdict is Verdict.REGRESSION


def test_a_pass_beside_an_error_is_what_its_headline_said() -> None:
    finding = {"rule": "a/b", "severity": "error", "summary": "s"}
    report = json.parse(an_old_report(verdict="pass", findings=[finding]))

    assert report.verdict is Verdict.FAILED


def test_a_dry_run_was_no_error() -> None:
    error = {"message": "a dry run starts nothing"}
    report = json.parse(an_old_report(verdict=None, error=error, exit_code=0))

    assert report.error is None


@pytest.mark.parametrize("verdict", [[], {}, 3, "nonsense"])
def test_a_damaged_one_is_a_usage_error(verdict: object) -> None:
    with pytest.raises(UsageError, match="does not fit its schema"):
        json.parse(an_old_report(verdict=verdict))
