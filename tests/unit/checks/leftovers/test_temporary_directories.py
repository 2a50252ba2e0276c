"""Temporary directories of killed runs of ci-doctor."""

import os
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.leftovers.temporary_directories import CHECK
from ci_doctor.errors import UsageError
from ci_doctor.system.files.own_directory import own_directory
from tests.support.checks import check_context


@pytest.fixture
def left(tmp_path: Path) -> Path:
    path = tmp_path / "ci-doctor-tmp.verify.abcd_123"
    path.mkdir()
    (path / "log").write_bytes(bytes(5000))
    os.utime(path, (0, 0))
    return path


def test_one_that_was_left_is_a_note_and_its_fix_removes_it(tmp_path: Path, left: Path) -> None:
    context = check_context(tmp_path, environ={"TMPDIR": str(tmp_path)})

    (found,) = CHECK.run(context).problems

    assert found.finding.severity == "note"
    assert found.fix is not None
    assert found.fix.words.startswith(f"remove {left}, ")
    found.fix.apply()
    assert not left.exists()
    assert CHECK.run(context).problems == ()


def test_one_that_comes_into_use_meanwhile_stays(tmp_path: Path, left: Path) -> None:
    context = check_context(tmp_path, environ={"TMPDIR": str(tmp_path)})
    (found,) = CHECK.run(context).problems
    assert found.fix is not None

    with (left / "log").open(), pytest.raises(UsageError, match="in use"):
        found.fix.apply()

    assert (left / "log").exists()


def test_one_in_which_a_process_works_is_not_left(tmp_path: Path, left: Path) -> None:
    context = check_context(tmp_path, environ={"TMPDIR": str(tmp_path)})

    with (left / "log").open():
        assert CHECK.run(context).problems == ()


def test_one_that_a_run_holds_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with own_directory() as name:
        os.utime(name, (0, 0))

        result = CHECK.run(check_context(tmp_path, environ={"TMPDIR": str(tmp_path)}))

    assert result.problems == ()


def test_a_temporary_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, environ={"TMPDIR": str(tmp_path / "gone")}))

    assert result.status is CheckStatus.OK
