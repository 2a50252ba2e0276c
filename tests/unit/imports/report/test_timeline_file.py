# SPDX-License-Identifier: Apache-2.0
"""Where the timeline of imports goes, and what it never replaces."""

import json
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.imports.report.timeline_file import TimelineResult, check_timeline, write_timeline
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.imports.hazards_of import a_process

NOTHING = Redactor(())


def test_it_is_attached_by_its_name_in_the_report_directory(tmp_path: Path) -> None:
    written = write_timeline([a_process()], None, tmp_path, NOTHING)

    assert [each.path for each in written.attachments] == ["imports.json"]
    assert written.findings == ()
    assert json.loads((tmp_path / "imports.json").read_text())["otherData"]["tool"] == "ci-doctor"


def test_a_named_file_elsewhere_is_attached_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "t.json"

    written = write_timeline([a_process()], path, tmp_path / "report", NOTHING)

    assert [each.path for each in written.attachments] == [str(path)]


@pytest.mark.parametrize(
    "content", ["[]", "", "{}", '{"otherData": {"tool": "another"}}', '{"otherData": 1}']
)
def test_a_file_of_another_tool_stays_and_is_a_finding(tmp_path: Path, content: str) -> None:
    path = tmp_path / "imports.json"
    path.write_text(content)

    written = write_timeline([a_process()], None, tmp_path, NOTHING)

    assert written.attachments == ()
    assert [finding.rule for finding in written.findings] == ["import-race/timeline"]
    assert path.read_text() == content
    with pytest.raises(UsageError):
        check_timeline(path)


def test_nothing_is_written_if_nothing_was_recorded(tmp_path: Path) -> None:
    assert write_timeline([], None, tmp_path, NOTHING) == TimelineResult()
    assert list(tmp_path.iterdir()) == []


def test_no_secret_is_in_it(tmp_path: Path) -> None:
    process = a_process(argv=("python", "--token", "sk-4242-do-not-tell"))

    write_timeline([process], None, tmp_path, Redactor(["sk-4242-do-not-tell"]))

    assert "sk-4242" not in (tmp_path / "imports.json").read_text()
