# SPDX-License-Identifier: Apache-2.0
"""Which directories a job has published before."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.render import report_files
from ci_doctor.session.report_directory import (
    ReportDirectory,
    lock_default,
    lock_free_below,
    lock_named,
    published_elsewhere,
)


def test_one_at_a_time_and_no_descriptor_stays(tmp_path: Path) -> None:
    first = ReportDirectory.lock(tmp_path)
    assert first is not None
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    assert ReportDirectory.lock(tmp_path) is None

    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    first.release()
    first.release()
    assert ReportDirectory.lock(tmp_path) is not None


def test_where_nothing_can_be_locked_a_report_is_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without_locks)

    assert ReportDirectory.lock(tmp_path) is not None
    assert ReportDirectory.lock(tmp_path) is not None


def test_makes_the_directory_and_leaves_no_file_of_its_own(tmp_path: Path) -> None:
    lock_named(tmp_path / "a" / "b").release()

    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_clearing_removes_an_earlier_report_and_nothing_else(tmp_path: Path) -> None:
    for name in (*report_files(), "notes.txt"):
        (tmp_path / name).write_text("old")

    lock_named(tmp_path).clear()

    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_directory_that_another_run_holds_is_refused_until_it_is_released(tmp_path: Path) -> None:
    first = lock_named(tmp_path)

    with pytest.raises(UsageError, match="another run of ci-doctor is writing to") as caught:
        lock_named(tmp_path)
    assert caught.value.hint

    first.release()
    lock_named(tmp_path).release()


def test_below_a_root_each_run_gets_a_fresh_folder(tmp_path: Path) -> None:
    first = lock_free_below(tmp_path, "run")  # held, and without a report yet
    second = lock_free_below(tmp_path, "run")
    (second.path / "report.json").write_text("{}")
    second.release()
    third = lock_free_below(tmp_path, "run")

    assert [each.path.name for each in (first, second, third)] == ["run", "run-2", "run-3"]


def test_what_cannot_be_written_is_refused_early(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError) as caught:
            lock_named(path)
        assert caught.value.hint


def test_a_report_that_cannot_be_removed_is_refused_early(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()

    with pytest.raises(UsageError, match="cannot empty"):
        lock_named(tmp_path).clear()


def test_a_report_that_arrives_while_the_lock_is_taken_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = ReportDirectory.lock

    def lock_after_the_other(path: Path) -> ReportDirectory | None:
        directory = lock(path)
        if path.name == "wait":
            (path / "report.json").write_text("{}")
        return directory

    monkeypatch.setattr(ReportDirectory, "lock", lock_after_the_other)

    assert lock_free_below(tmp_path, "wait").path.name == "wait-2"
    assert (tmp_path / "wait" / "report.json").exists()


def test_a_default_directory_in_use_is_left_for_the_next(tmp_path: Path) -> None:
    outer = lock_default(tmp_path / "ci-doctor-report")
    inner = lock_default(tmp_path / "ci-doctor-report")

    assert [each.path.name for each in (outer, inner)] == [
        "ci-doctor-report",
        "ci-doctor-report-2",
    ]


def test_a_file_above_the_directory_is_an_error_and_no_endless_search(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(UsageError, match=r"cannot use .*Not a directory"):
        lock_free_below(tmp_path / "file" / "reports", "setup-env")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path))
    return tmp_path


def test_later_calls_of_a_job_know_what_earlier_ones_published(root: Path) -> None:
    one, two = root / "one", root / "two"

    assert published_elsewhere("j", [one]) == []
    assert published_elsewhere("j", [two]) == [one]
    assert published_elsewhere("j", [one, two]) == []
    assert published_elsewhere("j", []) == [one, two]


def test_another_job_in_the_same_directory_knows_nothing_of_it(root: Path) -> None:
    published_elsewhere("j", [root / "one"])

    assert published_elsewhere("k", []) == []


@pytest.mark.parametrize("text", ["", "[1]", '{"job": "j"}', '{"job": "j", "folders": {}}'])
def test_what_is_no_list_of_folders_names_none(text: str, root: Path) -> None:
    (root / ".folders.json").write_text(text)

    assert published_elsewhere("j", [root / "one"]) == []


def test_without_a_report_directory_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI_DOCTOR_REPORT_DIR", raising=False)

    assert published_elsewhere("j", [tmp_path]) == []
    assert published_elsewhere("j", []) == []


def test_a_directory_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path / "file" / "below"))

    assert published_elsewhere("j", [tmp_path]) == []
