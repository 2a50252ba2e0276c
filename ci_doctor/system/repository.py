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
    # The form is made for programs (git-status(1), "Porcelain Format Version 2").
    words = ("--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=all")
    # Without the option, git would write what it has learned into the index.
    ran = _git(directory, "--no-optional-locks", "status", *words, limit_s=None)
    if ran is None:
        return None
    return _read_status(ran.splitlines())


def _read_status(lines: list[str]) -> Checkout | None:
    """What `git status` prints; None if there is no commit yet."""
    headers = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    commit = headers["branch.oid"]
    if commit == "(initial)":
        return None
    branch = headers["branch.head"]
    return Checkout(
        commit=commit,
        branch=None if branch == "(detached)" else branch,
        dirty=any(not line.startswith("# ") for line in lines),
    )


class Head(Struct, frozen=True, kw_only=True):
    """The commit that is checked out, and its branch: None if HEAD is detached."""

    commit: str
    branch: str | None


# Enough for a repository on a slow disk; a report must not wait longer for a line of its header.
_GIT_LIMIT_S = 5.0


def head(directory: Path) -> Head | None:
    """The same without the state of the files, which git would have to read.

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
