"""Which commit a report is about, read from real repositories."""

import os
import subprocess
from pathlib import Path

import pytest
from git import Repo

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


@pytest.mark.parametrize(
    "change",
    ["none", "changed", "staged", "removed", "untracked", "detached", "of another name", "renamed"],
)
def test_gitpython_gives_the_same(change: str, tmp_path: Path) -> None:
    # Another reader of repositories. It is a dependency of development alone: an import of 60 ms.
    repository(tmp_path)
    match change:
        case "changed":
            (tmp_path / "file").write_text("two")
        case "staged":
            (tmp_path / "other file").write_text("two")
            git(tmp_path, "add", ".")
        case "removed":
            (tmp_path / "file").unlink()
        case "untracked":
            (tmp_path / "other").write_text("two")
        case "detached":
            git(tmp_path, "checkout", "-q", "--detach")
        case "of another name":
            git(tmp_path, "checkout", "-q", "-b", "feature/ä-b")
        case "renamed":
            git(tmp_path, "mv", "file", "moved")
        case _:
            assert change == "none"

    found = checkout(tmp_path)

    with Repo(tmp_path) as other:
        head = other.head
        branch = None if head.is_detached else other.active_branch.name
        expected = (head.commit.hexsha, branch, other.is_dirty(submodules=False))
    assert found is not None
    assert (found.commit, found.branch, found.dirty) == expected


def test_reading_a_checkout_does_not_write_its_index(tmp_path: Path) -> None:
    repository(tmp_path)
    os.utime(tmp_path / "file", (1, 1))
    index = tmp_path / ".git" / "index"
    before = index.read_bytes()

    assert checkout(tmp_path) is not None

    assert index.read_bytes() == before
