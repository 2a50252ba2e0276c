# SPDX-License-Identifier: Apache-2.0
"""Reads what a person names as a package: a directory, PATH@REVISION, a wheel, an sdist, a name."""

from pathlib import Path
from typing import Final

from ci_doctor.compat.sources.code_tree import CodeTree
from ci_doctor.compat.sources.directory import directory_tree
from ci_doctor.compat.sources.installed import installed_tree
from ci_doctor.compat.sources.revision import revision_tree
from ci_doctor.compat.sources.sdist import sdist_tree
from ci_doctor.compat.sources.wheel import wheel_tree
from ci_doctor.errors import UsageError

_TARS: Final = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
_ZIPS: Final = (".whl", ".zip", ".egg")


def open_source(text: str, python: Path | None = None) -> CodeTree:
    """The code that `text` names. Raises UsageError if there is none."""
    path = Path(text)
    if path.is_dir():
        return directory_tree(path, text)
    if path.is_file():
        return _archive(path, text)
    place, at, revision = text.rpartition("@")
    if at and revision and Path(place or ".").is_dir():
        return revision_tree(Path(place or "."), revision, text)
    return installed_tree(text, python)


def _archive(path: Path, text: str) -> CodeTree:
    if path.name.endswith(_TARS):
        return sdist_tree(path, text)
    if path.name.endswith(_ZIPS):
        return wheel_tree(path, text)
    raise UsageError(f"{text} is no wheel and no sdist", hint="name a directory or an archive")
