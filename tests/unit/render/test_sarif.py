# SPDX-License-Identifier: Apache-2.0
"""SARIF 2.1.0 as its readers need it: the required properties, and no more results than places."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec import structs

from ci_doctor.model.outcome import Evidence, Report, Verdict
from ci_doctor.render import lint_report as sarif
from tests.support.builders import a_report, sample_reports
from tests.support.diagnoses import HOSTILE
from tests.support.git_repository import make_repository
from tests.support.lint_runs import lint_report


def an_object(*required: str, **properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties alone."""
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


def a_list(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


STRING = {"type": "string"}
COUNT = {"type": "integer", "minimum": 1}
TEXT = an_object("text", text=STRING)
LOCATIONS = a_list(
    an_object(
        "physicalLocation",
        id={"type": "integer", "minimum": -1},
        message=TEXT,
        physicalLocation=an_object(
            "artifactLocation",
            artifactLocation=an_object(uri={"type": "string", "pattern": r"^[\x21-\x7e]+$"}),
            region=an_object("startLine", startLine=COUNT, startColumn=COUNT),
        ),
    )
)
RESULT = an_object(
    "message",
    ruleId=STRING,
    ruleIndex={"type": "integer"},
    level={"enum": ["none", "note", "warning", "error"]},
    message=TEXT,
    locations=LOCATIONS,
    relatedLocations=LOCATIONS,
    partialFingerprints={"type": "object", "additionalProperties": STRING},
)
DRIVER = an_object(
    "name",
    name={"const": "ci-doctor"},
    version=STRING,
    rules=a_list({"type": "object", "required": ["id"]}, uniqueItems=True),
)
RUN = an_object(
    "tool",
    tool=an_object("driver", driver=DRIVER),
    invocations=a_list({"type": "object", "required": ["executionSuccessful"]}),
    results=a_list(RESULT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
)
# What sections 3.13, 3.14, 3.20 and 3.27 of the standard require of the parts that we write.
STANDARD = an_object(
    "version",
    "runs",
    **{"$schema": STRING},
    version={"const": "2.1.0"},
    runs=a_list(RUN, minItems=1),
)
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
