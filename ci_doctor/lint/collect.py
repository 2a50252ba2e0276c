# SPDX-License-Identifier: Apache-2.0
"""Reads a tree: the files that lint looks at, and with git those lines that a change has brought."""

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.git import ask_git, listed_files, missing_commit_hint
from ci_doctor.lint.source_files import (
    WHOLE,
    ChangedLines,
    Lines,
    LintScope,
    LintTree,
    SourceKind,
    SourcePath,
    is_evidence,
    kind_by_first_line,
    kind_by_name,
    may_be_program,
)
from ci_doctor.system.files.access import near_path, open_at_once

# The lines that differ between a base and the files as they lie in the directory.

# `@@ -3,2 +4,0 @@`; a count of 1 is left out.
_HUNK: Final = re.compile(r"^@@ -\S+ \+(?P<first>\d+)(?:,(?P<count>\d+))? @@", re.MULTILINE)
_FILE: Final = re.compile(r"^diff --git ", re.MULTILINE)
# Whatever a person has configured: one header for each file, no context, binary files as text.
_DIFF: Final = (
    "diff",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--text",
    "--unified=0",
    "--inter-hunk-context=0",
    "--find-renames",
    "--submodule=short",
    "--ignore-submodules=all",
    "--diff-filter=d",
    "--no-relative",
)
_EVERY_LINE: Final = ((1, 2**31),)


def changed_since(root: Path, reference: str) -> ChangedLines:
    """What differs from the merge base of `reference` and HEAD, uncommitted and new files included.

    Raises UsageError if git knows no such commit, or no common one; InfraError if it cannot compare.
    """
    base = _merge_base(root, reference)
    # The present names of the changed files, in the order of the patch.
    listed = ask_git(root, *_DIFF, "--name-only", "-z", base, "--")
    patch = ask_git(root, *_DIFF, base, "--")
    untracked = ask_git(root, "ls-files", "-z", "--others", "--exclude-standard")
    names = [name for name in (listed or "").split("\0") if name]
    # The n-th header of a patch belongs to the n-th name: a header's own name is quoted in several ways.
    bodies = _FILE.split(patch or "")[1:]
    if None in (listed, patch, untracked) or len(bodies) != len(names):
        raise InfraError(
            f"git cannot compare the files with {base[:12]}", hint=f"git diff {base[:12]}"
        )
    lines: dict[str, Lines] = {
        name: tuple(_hunk_lines(body)) for name, body in zip(names, bodies, strict=True)
    }
    lines.update((name, _EVERY_LINE) for name in (untracked or "").split("\0") if name)
    return ChangedLines(base=base, lines=lines)


def _merge_base(root: Path, reference: str) -> str:
    commit = ask_git(
        root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}"
    )
    if not commit:
        raise UsageError(
            f"git knows no commit {reference}", hint=missing_commit_hint(root, reference)
        )
    base = ask_git(root, "merge-base", commit, "HEAD")
    if not base:
        raise UsageError(
            f"{reference} and HEAD have no common commit here",
            hint="a shallow clone lacks it: git fetch --unshallow, or --deepen=1000",
        )
    return base.splitlines()[0]


def _hunk_lines(body: str) -> Iterator[tuple[int, int]]:
    for match in _HUNK.finditer(body):
        first = int(match["first"])
        count = int(match["count"] or 1)
        # Lines were only removed: the ones before and after the gap stand beside the change.
        if count == 0:
            yield max(first, 1), first + 1
        else:
            yield first, first + count - 1


# The tree that is looked at, and the part of it to report on.


def lint_scope(names: Sequence[str], cwd: Path) -> LintScope:
    """The scope of the paths that a person gave; without any it is the whole repository.

    Raises UsageError for a path that does not exist, and for paths of several repositories.
    """
    if not names:
        top = _repository_of(cwd)
        return LintScope(root=top or cwd, paths=(WHOLE,), is_repository=top is not None)
    whole = [_existing(cwd / name, name) for name in names]
    first = whole[0] if whole[0].is_dir() else whole[0].parent
    top = _repository_of(first)
    root = top or _common_directory(whole, cwd.resolve())
    paths = []
    for path, name in zip(whole, names, strict=True):
        if not path.is_relative_to(root):
            raise UsageError(
                f"{name} does not lie in {root}", hint="give paths of one repository at a time"
            )
        relative = path.relative_to(root).as_posix()
        paths.append(relative)
    return LintScope(root=root, paths=tuple(dict.fromkeys(paths)), is_repository=top is not None)


def _existing(path: Path, name: str) -> Path:
    """`path` without `..` and without links above its last name. Raises UsageError."""
    if not os.path.lexists(path):
        raise UsageError(
            f"{name} does not exist", hint=near_path(Path(name)) or "name a file or a directory"
        )
    if path.name in {"", ".."}:
        return path.resolve()
    return path.parent.resolve() / path.name


def _repository_of(directory: Path) -> Path | None:
    top = ask_git(directory, "rev-parse", "--show-toplevel")
    return Path(top).resolve() if top else None


def _common_directory(paths: Sequence[Path], cwd: Path) -> Path:
    """`cwd` if all paths lie in it: the folders above a file say what it is for."""
    if all(path.is_relative_to(cwd) for path in paths):
        return cwd
    directories = [path if path.is_dir() else path.parent for path in paths]
    return Path(os.path.commonpath(directories))


# The files that lint reads, and how many it leaves out for which reason.

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
    listed = listed_files(root, paths)
    if listed is None:
        raise InfraError(f"git cannot list the files of {root}", hint="run `git ls-files` there")
    return listed


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
