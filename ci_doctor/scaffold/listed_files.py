# SPDX-License-Identifier: Apache-2.0
"""Pure. The names of the files of a repository."""

from pathlib import Path
from typing import Final

from msgspec import Struct

# What others wrote and a repository only keeps, and what tools make.
LEFT_OUT: Final = frozenset(
    (
        *("third_party", "third-party", "3rdparty", "vendor", "node_modules", "site-packages"),
        *(".venv", "venv", ".git", ".tox", ".nox", "__pycache__", "build", "dist", ".mypy_cache"),
    )
)


class ListedFiles(Struct, frozen=True, kw_only=True):
    """What is looked at.

    root: the top of the repository, or the directory itself without one. directory: what is looked at,
    where the configuration goes. files: the names below `directory`, relative to it, with `/`.
    own_files: those of all of the repository, relative to `root`. is_whole: no limit was reached.
    """

    root: Path
    directory: Path
    is_repository: bool
    files: tuple[str, ...]
    root_files: tuple[str, ...]
    is_whole: bool = True
