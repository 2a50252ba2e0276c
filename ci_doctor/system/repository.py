# SPDX-License-Identifier: Apache-2.0
"""Acts on git, by reading: which commit a report is about."""

from pathlib import Path

from msgspec import Struct


class Checkout(Struct, frozen=True, kw_only=True):
    """The commit that is checked out, its branch (None where HEAD is detached), and whether tracked files differ from it."""

    commit: str
    branch: str | None
    dirty: bool


def checkout(directory: Path) -> Checkout | None:
    """The checkout that holds `directory`; None where there is none, or where git cannot read it."""
    try:
        import git
    except ImportError:  # GitPython raises this where there is no git on PATH
        return None
    try:
        with git.Repo(directory, search_parent_directories=True) as repository:
            head = repository.head
            return Checkout(
                commit=head.commit.hexsha,
                branch=None if head.is_detached else repository.active_branch.name,
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
