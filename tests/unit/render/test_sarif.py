# SPDX-License-Identifier: Apache-2.0
"""SARIF 2.1.0 as its readers need it: the required properties, and no more results than places."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec import structs

from ci_doctor.model.finding import Evidence
from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import sarif
from tests.support.builders import a_report, sample_reports
from tests.support.diagnoses import HOSTILE
from tests.support.git_repository import make_repository
from tests.support.lint_runs import lint_report

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "id": {"type": "integer", "minimum": -1},
        "message": TEXT,
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "properties": {"uri": {"type": "string", "pattern": r"^[\x21-\x7e]+$"}},
                    "additionalProperties": False,
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "properties": {
                        "startLine": {"type": "integer", "minimum": 1},
                        "startColumn": {"type": "integer", "minimum": 1},
                    },
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
# What sections 3.13, 3.14, 3.20 and 3.27 of the standard require of the parts that we write.
STANDARD = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"const": "ci-doctor"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "items": {"type": "object", "required": ["id"]},
                                        "uniqueItems": True,
                                    },
                                },
                                "additionalProperties": False,
                            }
                        },
                    },
                    "invocations": {
                        "type": "array",
                        "items": {"type": "object", "required": ["executionSuccessful"]},
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer"},
                                "level": LEVEL,
                                "message": TEXT,
                                "locations": {"type": "array", "items": LOCATION},
                                "relatedLocations": {"type": "array", "items": LOCATION},
                                "partialFingerprints": {
                                    "type": "object",
                                    "additionalProperties": {"type": "string"},
                                },
                                "rank": {"type": "number", "minimum": -1, "maximum": 100},
                            },
                            "additionalProperties": False,
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
VALIDATOR = jsonschema.validators.validator_for(STANDARD)(STANDARD)


def the_run(report: Report) -> dict[str, Any]:
    """The one run of a valid log."""
    log = json.loads(sarif.render(report))
    VALIDATOR.validate(log)
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


@pytest.mark.parametrize("name", sample_reports())
def test_every_report_is_valid(name: str) -> None:
    assert the_run(sample_reports()[name])["results"] == []


def test_an_error_is_no_success() -> None:
    assert the_run(a_report(None))["invocations"][0]["executionSuccessful"] is False
    assert the_run(a_report(Verdict.PASS))["invocations"][0]["executionSuccessful"] is True


@pytest.mark.parametrize("file", ["/srv/a b.sh", "dir/ü.sh", "a:b.sh", "x\ud800y.sh", "a\x1b.sh"])
def test_any_name_of_a_file_makes_a_uri(file: str, tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.sh": "echo evil\n"})
    report = lint_report(tmp_path)
    finding = structs.replace(report.findings[0], evidence=(Evidence(file=file, line=3),))

    (result,) = the_run(structs.replace(report, findings=(finding,)))["results"]

    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.startswith("file:///") is file.startswith("/")


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.sh": "echo evil\n"})
    report = lint_report(tmp_path)
    finding = structs.replace(report.findings[0], summary=HOSTILE, remedy=HOSTILE)

    text = sarif.render(structs.replace(report, findings=(finding,)))

    assert not set("\x1b\x00\x9b\u202e") & set(text)


def test_each_finding_is_a_result_at_its_place_with_its_rule(tmp_path: Path) -> None:
    files = {"a b.sh": "source lib.sh\n", "lib.sh": "echo evil\n", "p.yml": "steps: late\n"}
    make_repository(tmp_path, files)

    run = the_run(lint_report(tmp_path))

    first = run["results"][0]
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b.sh"},
        "region": {"startLine": 1},
    }
    related = first["relatedLocations"][0]["physicalLocation"]["artifactLocation"]
    assert related == {"uri": "lib.sh"}
    assert [each["level"] for each in run["results"]] == ["error", "error", "warning"]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[each["ruleIndex"]]["id"] for each in run["results"]] == [
        each["ruleId"] for each in run["results"]
    ]
    assert rules[0]["fullDescription"]["text"]


def test_a_fingerprint_stays_when_lines_move_and_two_equal_lines_have_two(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.sh": "echo evil\necho evil\n"})
    before = [each["partialFingerprints"] for each in the_run(lint_report(tmp_path))["results"]]
    (tmp_path / "a.sh").write_text("\n\n  echo evil\ntrue\necho   evil\n")
    after = [each["partialFingerprints"] for each in the_run(lint_report(tmp_path))["results"]]

    assert before == after
    assert before[0] != before[1]


def test_a_clean_repository_has_no_result_and_a_note(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.sh": "true\n"})

    run = the_run(lint_report(tmp_path))

    assert run["results"] == []
    assert run["invocations"][0]["toolExecutionNotifications"][0]["level"] == "note"
