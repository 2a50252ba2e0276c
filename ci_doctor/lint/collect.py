# SPDX-License-Identifier: Apache-2.0
"""Reads a tree: the files that lint reads, and how many it leaves out for which reason."""

import os
import stat
from collections.abc import Collection, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final

from ci_doctor.errors import InfraError
from ci_doctor.git import ask_git
from ci_doctor.lint.source_kind import (
    SourceKind,
    is_evidence,
    kind_by_first_line,
    kind_by_name,
    may_be_program,
)
from ci_doctor.lint.source_tree import WHOLE, LintScope, LintTree, SourcePath
from ci_doctor.system.files.opening import open_at_once

# What others wrote and this repository only keeps.
VENDORED: Final = frozenset(
    {"third_party", "third-party", "3rdparty", "node_modules", "site-packages", ".venv"}
)
_SHEBANG_BYTES: Final = 128  # what the kernel itself looked at for long (BINPRM_BUF_SIZE)


def collect(scope: LintScope, changed: Collection[str] | None = None) -> LintTree:
    """The files below the paths of `scope`.

    changed: if it is given, no other file is opened to learn its kind. Raises InfraError if git
    cannot list its files.
    """
    files = []
    evidence = []
    left_out = {"missing": 0, "links": 0, "special": 0, "vendored": 0}
    for file in sorted(set(_listed(scope))):
        reason = _reason_to_leave_out(scope.root, file)
        if reason is None and _is_vendored(scope, file):
            reason = "vendored"
        kind = kind_by_name(file)
        if reason is None and kind is None and (changed is None or file in changed):
            kind = _kind_by_content(scope.root, file)
        if reason is None and kind is not None:
            files.append(SourcePath(file=file, kind=kind))
        # A variable may be read by what others wrote.
        elif reason in {None, "vendored"} and (kind is not None or is_evidence(file)):
            evidence.append(file)
        if reason is not None:
            left_out[reason] += 1
    listed = partial(_repository_files, scope.root) if scope.is_repository else None
    return LintTree(
        root=scope.root, listed=listed, files=tuple(files), evidence=tuple(evidence), **left_out
    )


def _reason_to_leave_out(root: Path, file: str) -> str | None:
    """The count that `file` belongs to; None if it can be read."""
    try:
        mode = os.lstat(root / file).st_mode
    except (OSError, ValueError):
        return "missing"
    if stat.S_ISLNK(mode):
        return "links"
    if not stat.S_ISREG(mode):
        return "special"
    return None


def _is_vendored(scope: LintScope, file: str) -> bool:
    directories = file.split("/")[:-1]
    if not VENDORED.intersection(directories):
        return False
    for path in scope.paths:
        # Who names such a directory, or a file in it, wants it read.
        inside = VENDORED.intersection(path.split("/"))
        if inside and (file == path or file.startswith(f"{path}/")):
            return False
    return True


def _kind_by_content(root: Path, file: str) -> SourceKind | None:
    if not may_be_program(file):
        return None
    try:
        descriptor = open_at_once(root / file, follow=False)
        try:
            first = os.read(descriptor, _SHEBANG_BYTES)
        finally:
            os.close(descriptor)
    # Whoever cannot read it cannot run it as a script either.
    except OSError:
        return None
    return kind_by_first_line(first.decode("latin-1").partition("\n")[0])


def _listed(scope: LintScope) -> Iterator[str]:
    if not scope.is_repository:
        for path in scope.paths:
            yield from _walked(scope.root, path)
        return
    listed = _listed_by_git(scope.root, scope.paths)
    yield from listed
    for path in scope.paths:
        # Named, though git ignores it.
        if path != WHOLE and not any(f == path or f.startswith(f"{path}/") for f in listed):
            yield from _walked(scope.root, path)


@cache
def _repository_files(root: Path) -> tuple[str, ...]:
    return tuple(_listed_by_git(root, (WHOLE,)))


def _listed_by_git(root: Path, paths: tuple[str, ...]) -> list[str]:
    """Tracked files, and untracked ones that are not ignored."""
    listed = ask_git(
        root,
        "--literal-pathspecs",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        *paths,
    )
    if listed is None:
        raise InfraError(f"git cannot list the files of {root}", hint="run `git ls-files` there")
    return [name for name in listed.split("\0") if name]


def _walked(root: Path, path: str) -> Iterator[str]:
    """All files below `path`, links to directories not followed."""
    start = root / path
    if not start.is_dir() or start.is_symlink():
        yield path
        return
    for directory, subdirectories, names in os.walk(start):
        subdirectories[:] = [name for name in subdirectories if name != ".git"]
        for name in names:
            yield (Path(directory) / name).relative_to(root).as_posix()
