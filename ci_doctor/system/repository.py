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
    try:
        # Late: it costs as much as all the rest of a command's imports.
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
