# SPDX-License-Identifier: Apache-2.0
"""Files of earlier jobs: /dev/shm, ci-doctor's own directories, locks of builds."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, CheckStatus, UndeterminedError
from ci_doctor.checks.leftovers import build_locks, shared_memory, temporary_directories
from ci_doctor.errors import UsageError
from ci_doctor.system import clock
from ci_doctor.system.files.access import own_directory
from tests.support.checks import check_context


@pytest.fixture
def an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a last change of a file's state (ctime) cannot be set back."""
    now = clock.epoch
    monkeypatch.setattr(clock, "epoch", lambda: now() + 3600)


@pytest.fixture
def segment(an_hour_later: None) -> Iterator[Path]:
    path = Path(f"/dev/shm/ci-doctor-stale-{os.getpid()}")
    path.write_bytes(bytes(8192))
    yield path
    path.unlink(missing_ok=True)


def excerpt(result: CheckResult) -> str:
    return "".join(
        evidence.excerpt or ""
        for problem in result.problems
        for evidence in problem.finding.evidence
    )


def test_a_file_that_nobody_has_open_is_named_with_its_removal(
    tmp_path: Path, segment: Path
) -> None:
    (tmp_path / "dev" / "shm").mkdir(parents=True)
    lone = tmp_path / "dev" / "shm" / "psm_1"
    lone.write_bytes(bytes(8192))

    (found,) = shared_memory.run(check_context(tmp_path, root=tmp_path)).problems

    assert found.finding.remedy == f"rm {lone}"
    assert found.finding.severity == "note"
    assert found.fix is None


def test_a_file_that_is_mapped_is_not(tmp_path: Path, segment: Path) -> None:
    with segment.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 8192)
    with mapped:
        result = shared_memory.run(check_context(tmp_path))

    assert str(segment) not in excerpt(result)


def test_a_container_that_shares_the_hosts_memory_does_not_know(
    tmp_path: Path, segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ci_doctor.checks import leftovers as files

    here = Path("/proc/self/ns/ipc").stat().st_ino
    monkeypatch.setattr(files, "_HOST_IPC", here)
    monkeypatch.setattr(files, "_HOST_PID", here)

    with pytest.raises(UndeterminedError, match="shared with the host"):
        shared_memory.run(check_context(tmp_path))


@pytest.fixture
def left(tmp_path: Path) -> Path:
    path = tmp_path / "ci-doctor-tmp.verify.abcd_123"
    path.mkdir()
    (path / "log").write_bytes(bytes(5000))
    os.utime(path, (0, 0))
    return path


def look(folder: Path) -> CheckResult:
    """What is found where TMPDIR is `folder`."""
    return temporary_directories.run(check_context(folder, environ={"TMPDIR": str(folder)}))


def test_one_that_was_left_is_a_note_and_its_fix_removes_it(tmp_path: Path, left: Path) -> None:
    (found,) = look(tmp_path).problems

    assert found.finding.severity == "note"
    assert found.fix is not None
    assert found.fix.words.startswith(f"remove {left}, ")
    found.fix.apply()
    assert not left.exists()
    assert look(tmp_path).problems == ()


def test_many_that_were_left_are_one_note_whose_fix_removes_all_that_are_of_no_use(
    tmp_path: Path,
) -> None:
    made = [tmp_path / f"ci-doctor-tmp.abcd_1{number}" for number in range(10, 24)]
    for path in made:
        path.mkdir()
        (path / "log").touch()
        os.utime(path, (0, 0))

    (found,) = look(tmp_path).problems

    assert "14 folders" in found.finding.summary
    assert "\nand 4 more" in str(found.finding.evidence[0].excerpt)
    assert found.fix is not None
    assert all(str(path) in found.fix.words for path in made)
    with (made[3] / "log").open(), pytest.raises(UsageError, match="in use"):
        found.fix.apply()
    assert [path for path in made if path.exists()] == [made[3]]


def test_one_in_which_a_process_works_is_not_left_and_one_that_comes_into_use_stays(
    tmp_path: Path, left: Path
) -> None:
    (found,) = look(tmp_path).problems
    assert found.fix is not None

    with (left / "log").open():
        assert look(tmp_path).problems == ()
        with pytest.raises(UsageError, match="in use"):
            found.fix.apply()

    assert (left / "log").exists()


def test_one_that_a_run_holds_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with own_directory() as name:
        os.utime(name, (0, 0))

        result = look(tmp_path)

    assert result.problems == ()


def test_a_temporary_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert look(tmp_path / "gone").status is CheckStatus.OK


def test_a_lock_that_nobody_holds_is_a_warning(tmp_path: Path) -> None:
    context = check_context(tmp_path, environ={"TORCH_EXTENSIONS_DIR": str(tmp_path)})
    assert build_locks.run(context).problems == ()
    lock = tmp_path / "py312_cu130" / "lmc_ops" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()

    (found,) = build_locks.run(context).problems
    with lock.open():
        assert build_locks.run(context).problems == ()

    assert (found.finding.severity, found.finding.remedy) == ("warning", f"rm {lock}")
