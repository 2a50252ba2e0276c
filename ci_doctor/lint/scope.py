# SPDX-License-Identifier: Apache-2.0
"""Reads git and the file system: the tree that is looked at, and the part of it to report on."""

import os
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.git import ask_git
from ci_doctor.lint.source_tree import WHOLE, LintScope


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
        raise UsageError(f"{name} does not exist", hint="name a file or a directory")
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
