# SPDX-License-Identifier: Apache-2.0
"""SARIF 2.1.0 as its readers need it: the required properties, and no more results than places."""

import json
from typing import Any

import jsonschema
import pytest
from msgspec import structs

from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import renderer, sarif
from tests.support.builders import a_report, sample_reports
from tests.support.diagnoses import HOSTILE, a_cause, a_diagnosis, report_of

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


def test_the_cause_stands_at_its_place_in_source_code() -> None:
    run = the_run(report_of(a_diagnosis(a_cause())))

    (result,) = run["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location == {
        "artifactLocation": {"uri": "tiny/shards.py"},
        "region": {"startLine": 48},
    }
    log = result["relatedLocations"][0]["physicalLocation"]
    assert (log["artifactLocation"]["uri"], log["region"]["startLine"]) == ("server.log", 10)
    assert result["partialFingerprints"] == {"ciDoctorRootCause/v1": "d36b44f3af775a6e"}
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_without_a_source_file_there_is_no_result() -> None:
    report = report_of(a_diagnosis(None))

    run = the_run(report)

    assert run["results"] == []
    notification = run["invocations"][0]["toolExecutionNotifications"][0]
    assert notification["message"]["text"] == report.summary
    assert not renderer("sarif").is_for(report)


@pytest.mark.parametrize("name", sample_reports())
def test_every_report_is_valid(name: str) -> None:
    assert the_run(sample_reports()[name])["results"] == []


def test_an_error_is_no_success() -> None:
    assert the_run(a_report(None))["invocations"][0]["executionSuccessful"] is False
    assert the_run(a_report(Verdict.PASS))["invocations"][0]["executionSuccessful"] is True


@pytest.mark.parametrize("file", ["/srv/a b.py", "dir/ü.py", "a:b.py", "x\ud800y.py", "a\x1b.py"])
def test_any_name_of_a_file_makes_a_uri(file: str) -> None:
    report = report_of(a_diagnosis(a_cause()))
    source = {"file": file, "line": 3, "column": None}
    report = structs.replace(report, facts={**report.facts, "source": source})

    (result,) = the_run(report)["results"]

    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.startswith("file:///") is file.startswith("/")


def test_hostile_text_stays_text() -> None:
    cause = a_cause(explanation=HOSTILE, remedy=HOSTILE)
    text = sarif.render(report_of(a_diagnosis(cause, HOSTILE)))

    assert not set("\x1b\x00\x9b\u202e") & set(text)


def test_damaged_facts_make_no_result() -> None:
    report = report_of(a_diagnosis(a_cause()))
    report = structs.replace(report, facts={"source": "x", "root_cause": 7})

    assert the_run(report)["results"] == []
