# SPDX-License-Identifier: Apache-2.0
"""Reads git: which commit a report is about."""

from pathlib import Path

from msgspec import Struct


class Checkout(Struct, frozen=True, kw_only=True):
    """The commit that is checked out, and whether tracked files differ from it (`dirty`).

    `branch` is None if HEAD is detached.
    """

    commit: str
    branch: str | None
    dirty: bool


def checkout(directory: Path) -> Checkout | None:
    """The checkout that holds `directory`; None if there is none, or if git cannot read it."""
    # Late, and only for a repository: to import it costs 60 ms, to ask git costs 3.
    if _git(directory, "rev-parse", "--git-dir", limit_s=None) is None:
        return None
    try:
        import git
    except ImportError:  # GitPython raises this if git is not on PATH
        return None
    try:
        with git.Repo(directory, search_parent_directories=True) as repository:
            head = repository.head
            branch = None if head.is_detached else repository.active_branch.name
            return Checkout(
                commit=head.commit.hexsha,
                branch=branch,
                dirty=repository.is_dirty(submodules=False),
            )
    except (
        git.InvalidGitRepositoryError,
        git.NoSuchPathError,
        git.GitCommandError,
        ValueError,
        OSError,
    ):
        return None


class Head(Struct, frozen=True, kw_only=True):
    """The commit that is checked out, and its branch: None if HEAD is detached."""

    commit: str
    branch: str | None


# Enough for a repository on a slow disk; a report must not wait longer for a line of its header.
_GIT_LIMIT_S = 5.0


def head(directory: Path) -> Head | None:
    """The same without the state of the files, by git itself: GitPython costs 60 ms to import.

    None if there is no repository, no commit, no git, or if git refuses (another owner).
    """
    ran = _git(directory, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    lines = (ran or "").splitlines()
    if len(lines) != 2:
        return None
    commit, branch = lines
    return Head(commit=commit, branch=None if branch == "HEAD" else branch)


def origin(directory: Path) -> str | None:
    """The remote `origin` of the repository that holds `directory`, with its credentials, if any."""
    ran = _git(directory, "config", "--get", "remote.origin.url")
    return (ran or "").strip() or None


def _git(directory: Path, *words: str, limit_s: float | None = _GIT_LIMIT_S) -> str | None:
    import subprocess

    command = ["git", "-C", str(directory), *words]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    if ran.returncode != 0:
        return None
    return ran.stdout
