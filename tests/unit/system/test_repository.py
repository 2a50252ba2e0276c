"""Which commit a report is about, read from real repositories."""

import subprocess
import sys
from pathlib import Path

from ci_doctor.system.repository import checkout


def git(directory: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(
        ["git", *identity, *words], cwd=directory, check=True, capture_output=True, text=True
    ).stdout.strip()


def repository(directory: Path) -> Path:
    git(directory, "init", "-q", "-b", "main")
    (directory / "file").write_text("one")
    git(directory, "add", "file")
    git(directory, "commit", "-qm", "one")
    return directory


def test_commit_and_branch_are_told_from_a_folder_inside(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "inside").mkdir()

    found = checkout(tmp_path / "inside")

    assert found is not None
    assert (found.commit, found.branch, found.dirty) == (
        git(tmp_path, "rev-parse", "HEAD"),
        "main",
        False,
    )


def test_a_changed_file_and_a_detached_head_are_told(tmp_path: Path) -> None:
    repository(tmp_path)
    git(tmp_path, "checkout", "-q", "--detach")
    (tmp_path / "file").write_text("two")

    found = checkout(tmp_path)

    assert found is not None
    assert (found.branch, found.dirty) == (None, True)


def test_no_repository_and_no_commit_are_none(tmp_path: Path) -> None:
    assert checkout(tmp_path) is None

    git(tmp_path, "init", "-q")

    assert checkout(tmp_path) is None


def test_gitpython_is_not_loaded_where_there_is_no_repository(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from ci_doctor.system.repository import checkout; "
        "checkout(Path(sys.argv[1])); print('git' in sys.modules)"
    )

    def loaded(directory: Path) -> str:
        command = [sys.executable, "-c", program, str(directory)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert loaded(tmp_path) == "False"

    repository(tmp_path)

    assert loaded(tmp_path) == "True"
