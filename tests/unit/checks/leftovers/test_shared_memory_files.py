"""Files in /dev/shm that no process has open."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckResult, UndeterminedError
from ci_doctor.checks.leftovers.shared_memory_files import CHECK
from ci_doctor.system import clock
from tests.support.checks import check_context


@pytest.fixture(autouse=True)
def _an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a last change of a file's state (ctime) cannot be set back."""
    now = clock.epoch
    monkeypatch.setattr(clock, "epoch", lambda: now() + 3600)


@pytest.fixture
def segment() -> Iterator[Path]:
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

    (found,) = CHECK.run(check_context(tmp_path, root=tmp_path)).problems

    assert found.finding.remedy == f"rm {lone}"
    assert found.finding.severity == "note"
    assert found.fix is None


def test_a_file_that_is_mapped_is_not(tmp_path: Path, segment: Path) -> None:
    with segment.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 8192)
    with mapped:
        result = CHECK.run(check_context(tmp_path))

    assert str(segment) not in excerpt(result)


def test_a_container_that_shares_the_hosts_memory_does_not_know(
    tmp_path: Path, segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ci_doctor.checks.leftovers import shared_memory_files

    here = Path("/proc/self/ns/ipc").stat().st_ino
    monkeypatch.setattr(shared_memory_files, "_HOST_IPC", here)
    monkeypatch.setattr(shared_memory_files, "_HOST_PID", here)

    with pytest.raises(UndeterminedError, match="shared with the host"):
        CHECK.run(check_context(tmp_path))
