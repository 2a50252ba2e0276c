# SPDX-License-Identifier: Apache-2.0
"""Which files of a report are uploaded, and under which names."""

from pathlib import Path

import pytest

from ci_doctor.buildkite import publish as report_files
from ci_doctor.buildkite.publish import Upload, uploads_of
from tests.unit.buildkite.test_publish import JOB, Build


def names(upload: Upload) -> list[str]:
    return [str(path.relative_to(upload.base)) for path in (*upload.first, *upload.rest)]


def test_the_report_comes_first_and_the_junit_files_have_the_jobs_name(tmp_path: Path) -> None:
    directory = Build(tmp_path).folder(
        junit_xml="<testsuites/>", attempts_xml="<all/>", candidate_log="boom", report_html="page"
    )
    (directory / "samples").mkdir()
    (directory / "samples" / "odd [1];x.jsonl").write_text("{}")
    (directory / ".report.json.half").write_text("half")
    (directory / "link").symlink_to("/etc/passwd")

    upload, problems = uploads_of(directory, JOB)

    assert problems == []
    assert [path.name for path in upload.first] == ["report.html", "report.json", "report.md"]
    assert names(upload)[3:] == [
        "0190-j1/correctness/attempts-0190-j1.xml",
        "0190-j1/correctness/candidate.log",
        "0190-j1/correctness/junit-0190-j1.xml",
        "0190-j1/correctness/samples/odd [1];x.jsonl",
    ]
    assert (directory / "junit-0190-j1.xml").read_text() == "<testsuites/>"
    assert (directory / "attempts-0190-j1.xml").read_text() == "<all/>"


def test_a_second_time_gives_the_same_files(tmp_path: Path) -> None:
    directory = Build(tmp_path).folder(junit_xml="<testsuites/>")

    first, _ = uploads_of(directory, JOB)
    second, _ = uploads_of(directory, JOB)

    assert names(first) == names(second)


def test_a_directory_that_cannot_take_the_copy_uploads_junit_xml_as_it_is(tmp_path: Path) -> None:
    directory = Build(tmp_path).folder(junit_xml="<testsuites/>")
    (directory / "junit-0190-j1.xml").mkdir()  # stops root too, whom no mode bits stop

    upload, problems = uploads_of(directory, JOB)

    assert "0190-j1/correctness/junit.xml" in names(upload)
    (problem,) = problems
    assert problem.startswith("junit.xml keeps its name: ")


def test_what_is_too_much_or_too_large_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_files, "FILES_PER_REPORT", 3)
    monkeypatch.setattr(report_files, "BYTES_PER_FILE", 1000)
    directory = Build(tmp_path).folder(a_log="1", b_log="2", huge_log="x" * 1001)

    upload, problems = uploads_of(directory, JOB)

    assert [Path(name).name for name in names(upload)] == ["report.json", "report.md", "a.log"]
    (problem,) = problems
    assert "huge.log, b.log" in problem


def test_large_logs_wait_for_the_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_files, "_SMALL_BYTES", 1000)
    directory = Build(tmp_path).folder(a_log="x" * 1001)

    upload, _ = uploads_of(directory, JOB)

    assert upload.is_large
    assert [path.name for path in upload.rest] == ["a.log"]


def test_an_old_agent_gets_all_files_but_those_that_it_would_take_for_patterns(
    tmp_path: Path,
) -> None:
    build = Build(tmp_path, version="3.20.0")
    upload, _ = uploads_of(build.folder(**{"test_a[b]_log": "x"}), JOB)

    result = build.agent.upload_artifacts([*upload.first, *upload.rest], upload.base)

    (call,) = build.calls("upload")
    assert call["files"] == ["0190-j1/correctness/report.json", "0190-j1/correctness/report.md"]
    assert "test.a[b].log" in result.message
