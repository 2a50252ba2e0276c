"""Locks that a killed git has left."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ci_doctor.checks.checkout.locks import CHECK
from tests.support.checks import check_context
from tests.support.git_repository import make_repository


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    lock = make_repository(tmp_path) / ".git" / "index.lock"
    lock.touch()
    os.utime(lock, (0, 0))
    return lock


def test_an_old_lock_is_a_warning_with_a_line_to_paste(tmp_path: Path, locked: Path) -> None:
    (found,) = CHECK.run(check_context(tmp_path)).problems

    assert (found.finding.rule, found.finding.severity) == ("doctor/stale-git-lock", "warning")
    assert found.finding.remedy == f"rm {locked}"
    assert found.fix is None


def test_a_lock_that_somebody_holds_is_not_stale(tmp_path: Path, locked: Path) -> None:
    with locked.open():
        assert CHECK.run(check_context(tmp_path)).problems == ()


def test_while_a_git_works_in_the_checkout_no_lock_is_stale(tmp_path: Path, locked: Path) -> None:
    git = shutil.which("git")
    assert git is not None
    # Below a shell: git's of our own are those of other checks.
    with subprocess.Popen(
        ["sh", "-c", f"{git} cat-file --batch; exit"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(b"HEAD\n")
        worker.stdin.flush()
        worker.stdout.readline()  # it runs
        result = CHECK.run(check_context(tmp_path))

    assert result.problems == ()


def test_a_fresh_lock_is_somebodys(tmp_path: Path, locked: Path) -> None:
    os.utime(locked)

    assert CHECK.run(check_context(tmp_path)).summary == "no lock of git"
