# SPDX-License-Identifier: Apache-2.0
"""Files of strangers are read within bounds, and what cannot be read is never passed over."""

import os
from pathlib import Path

import pytest

from ci_doctor.build.collect import collect
from ci_doctor.build.current import merge_build
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.build import BuildFacts
from ci_doctor.model.outcome import About
from ci_doctor.render import json
from tests.support.builders import a_report
from tests.support.builds import a_job, a_report_of, write_build, write_record, write_report

RECORD = (
    b'{"schema":"ci-doctor/job/1","tool_version":"1","about":{},"verdict":"pass","summary":"s"}'
)


def test_records_and_reports_are_read_in_any_layout(tmp_path: Path) -> None:
    job = a_job()
    write_build(tmp_path, [job], "correctness", "setup-env")
    write_report(tmp_path / "deep" / "er" / "report.json", a_report_of(job, "diagnose"))

    material = collect([tmp_path])

    folder = str(job.about.job)
    assert [each.place for each in material.records] == [f"{folder}/job.json"]
    folders = [each.folder for each in material.reports]
    assert folders == [f"{folder}/correctness", f"{folder}/setup-env", "deep/er"]
    assert material.unreadable == ()


def test_a_folder_is_named_as_the_artifacts_tab_has_it(tmp_path: Path) -> None:
    job = a_job()
    write_build(tmp_path / "of" / "a" / "download", [job], "correctness")

    (report,) = collect([tmp_path]).reports

    assert report.folder == f"{job.about.job}/correctness"


def test_a_file_may_be_named_by_itself_and_twice(tmp_path: Path) -> None:
    path = tmp_path / "other-name.json"
    write_record(path, a_job())

    assert len(collect([path, path, tmp_path]).records) == 1


@pytest.mark.parametrize(
    "names",
    [("/one", "/two"), ("one", "two"), ("one", "/one"), ("one/", "link", "/two"), (".", "/one")],
)
def test_folders_named_in_any_way_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("one", "two"):
        write_build(tmp_path / folder, [a_job()], "correctness")
    (tmp_path / "link").symlink_to("one")
    paths = [Path(f"{tmp_path}{name}" if name.startswith("/") else name) for name in names]

    material = collect(paths)
    outcome = merge_build(paths)[0]

    is_both = any("two" in name for name in names) or "." in names
    assert len(material.records) == len(material.reports) == 1 + is_both
    # Of two copies of a job the report is there, and nothing contradicts.
    assert (outcome.verdict, outcome.findings) == ("pass", ())


def test_a_report_in_another_folder_than_its_record_is_not_absent(tmp_path: Path) -> None:
    folder = write_build(tmp_path / "records", [a_job()], "correctness") / str(a_job().about.job)
    there = tmp_path / "reports" / folder.name
    there.mkdir(parents=True)
    (folder / "correctness").rename(there / "correctness")

    assert merge_build((tmp_path / "records", tmp_path / "reports"))[0].findings == ()
    (finding,) = merge_build((tmp_path / "records",))[0].findings
    assert f"{folder.name}/correctness" in finding.summary


def test_a_named_folder_without_any_file_is_said(tmp_path: Path) -> None:
    write_build(tmp_path / "one", [a_job()])
    (tmp_path / "empty").mkdir()

    outcome = merge_build((tmp_path / "one", tmp_path / "empty"))[0]

    assert outcome.verdict == "pass"
    assert [each.summary for each in outcome.findings] == [
        f"no record and no report of a job lies in {tmp_path}/empty"
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b" \n", "empty", id="blank"),
        pytest.param(b"{", "not JSON", id="cut"),
        pytest.param(b"\xff\xfe", "not JSON", id="no-utf8"),
        pytest.param(b"[" * 100_000, "nested too deep", id="deep"),
        pytest.param(b"[]", "not a report", id="foreign-list"),
        pytest.param(b'{"jobs": []}', "not a report", id="foreign"),
        pytest.param(b'{"schema": 1}', "not a report", id="schema-of-another-type"),
        pytest.param(b'{"schema": "ci-doctor/report/3"}', "schema is", id="newer-report"),
        pytest.param(b'{"schema": "ci-doctor/job/2"}', "schema is", id="newer-record"),
        pytest.param(b'{"schema": "ci-doctor/job/1"}', "record of a job", id="record-cut"),
        pytest.param(b'{"schema": "ci-doctor/report/2"}', "does not fit", id="report-cut"),
        pytest.param(RECORD.replace(b'"s"', b'"\\ud800"'), "not JSON", id="lone-surrogate"),
    ],
)
@pytest.mark.parametrize("name", ["job.json", "report.json"])
def test_what_is_no_record_and_no_report_is_named(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)

    material = collect([tmp_path])

    (unreadable,) = material.unreadable
    assert unreadable.place == name
    assert problem in unreadable.problem
    assert not material.records
    assert not material.reports


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    huge = tmp_path / "report.json"
    with huge.open("wb") as file:
        file.truncate(500 * 1024**3)  # a hole: whoever reads it whole needs 500 GiB

    (unreadable,) = collect([tmp_path]).unreadable

    assert "larger than 32 MiB" in unreadable.problem


def test_all_files_together_are_bounded(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_record(tmp_path / name / "job.json", a_job(name))
    size = (tmp_path / "a" / "job.json").stat().st_size

    material = collect([tmp_path], most_in_all=2 * size + 1)

    assert len(material.records) == 2
    (unreadable,) = material.unreadable
    assert (unreadable.place, "fewer jobs" in unreadable.problem) == ("c/job.json", True)


def test_what_is_no_regular_file_is_named_and_holds_nobody_up(tmp_path: Path) -> None:
    for name in ("pipe", "link", "folder"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "job.json")
    (tmp_path / "link" / "job.json").symlink_to("/etc/hostname")

    material = collect([tmp_path])

    assert [each.place for each in material.unreadable] == ["link/job.json", "pipe/job.json"]


def test_a_link_that_a_person_names_is_read(tmp_path: Path) -> None:
    write_record(tmp_path / "here" / "job.json", a_job())
    (tmp_path / "link").symlink_to(tmp_path / "here" / "job.json")

    assert len(collect([tmp_path / "link"]).records) == 1


def test_a_folder_whose_name_is_no_text_is_read(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\x1b[31m")
    write_report(Path(folder) / "report.json", a_report(about=About()))

    outcome = merge_build((tmp_path,))[0]

    assert isinstance(outcome.facts, BuildFacts)
    (step,) = outcome.facts.build_steps
    assert step.name.isprintable()


def test_a_merged_report_is_no_report_of_a_job(tmp_path: Path) -> None:
    merged = a_report(facts={"build_steps": []})
    (tmp_path / "report.json").write_text(json.render(merged))

    assert collect([tmp_path]).reports == ()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nope", "there is no"),
        ("loop", "symbolic links"),
        ("file/below", "Not a directory"),
        ("a" * 5000, "too long"),
    ],
)
def test_a_path_that_cannot_be_read_is_an_error_of_usage(
    tmp_path: Path, name: str, problem: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match=problem):
        collect([tmp_path / name])
