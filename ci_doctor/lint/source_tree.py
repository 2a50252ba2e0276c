# SPDX-License-Identifier: Apache-2.0
"""Pure. What lint looks at: the part of a tree, and the files in it."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from ci_doctor.lint.source_kind import SourceKind

WHOLE = "."


class LintScope(Struct, frozen=True, kw_only=True):
    """What to look at.

    root: the repository's root, or without one the working directory, or one that holds all paths. paths: relative
    to it, with `/`; `.` is all of it. is_repository: git lists the files.
    """

    root: Path
    paths: tuple[str, ...]
    is_repository: bool


class SourcePath(Struct, frozen=True, kw_only=True):
    """A file that lint reads; `file` is relative to the root."""

    file: str
    kind: SourceKind


class LintTree(Struct, frozen=True, kw_only=True):
    """The files of a tree in the order of their names, and counts of what was left out.

    root: what names are relative to. listed: the names of all files of the repository, also of
    those outside of the paths; None without a repository.
    evidence: files, also of other projects, that only rules over several files read. missing: listed by git, and
    deleted. links: symbolic links, which are not followed. special: pipes, sockets, devices, submodules.
    vendored: in directories of other projects.
    """

    root: Path
    listed: Callable[[], tuple[str, ...]] | None
    files: tuple[SourcePath, ...]
    evidence: tuple[str, ...]
    missing: int = 0
    links: int = 0
    special: int = 0
    vendored: int = 0
