# SPDX-License-Identifier: Apache-2.0
"""SARIF of lint: a result for each finding, at its place, the same from run to run."""

import json
from pathlib import Path
from typing import Any

from ci_doctor.render import sarif
from tests.support.git_repository import make_repository
from tests.support.lint_runs import lint_report
from tests.unit.render.test_sarif import VALIDATOR


def the_run(directory: Path) -> dict[str, Any]:
    """The one run of a valid log."""
    log = json.loads(sarif.render(lint_report(directory)))
    VALIDATOR.validate(log)
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_each_finding_is_a_result_at_its_place_with_its_rule(tmp_path: Path) -> None:
    files = {"a b.sh": "source lib.sh\n", "lib.sh": "echo evil\n", "p.yml": "steps: late\n"}
    make_repository(tmp_path, files)

    run = the_run(tmp_path)

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
    before = [each["partialFingerprints"] for each in the_run(tmp_path)["results"]]
    (tmp_path / "a.sh").write_text("\n\n  echo evil\ntrue\necho   evil\n")
    after = [each["partialFingerprints"] for each in the_run(tmp_path)["results"]]

    assert before == after
    assert before[0] != before[1]


def test_a_clean_repository_has_no_result_and_a_note(tmp_path: Path) -> None:
    make_repository(tmp_path, {"a.sh": "true\n"})

    run = the_run(tmp_path)

    assert run["results"] == []
    assert run["invocations"][0]["toolExecutionNotifications"][0]["level"] == "note"
