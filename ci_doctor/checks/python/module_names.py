# SPDX-License-Identifier: Apache-2.0
"""Reads directories: which modules `import` finds in them, and which of those are compiled."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

_SOURCE = ".py"
# So many entries of a package are looked at, level by level, for a compiled module.
_ENTRIES = 3000


class LocalModule(Struct, frozen=True, kw_only=True):
    """A module that `import` finds in a directory: a file, or a folder with `__init__.py`."""

    name: str
    path: Path


def modules_in(directory: Path, suffixes: Sequence[str]) -> Iterator[LocalModule]:
    """The modules at the top of `directory`, by name. `suffixes` end extension modules.

    A folder without `__init__.py` hides nothing: a regular module further on is preferred (PEP 420).
    """
    try:
        entries = sorted(os.listdir(directory))  # noqa: PTH208 - half the time of iterdir
    except OSError:
        return
    for entry in entries:
        name = _module_name(entry, suffixes)
        if name is not None and name.isidentifier():
            yield LocalModule(name=name, path=directory / entry)
        elif entry.isidentifier() and os.path.isfile(directory / entry / "__init__.py"):  # noqa: PTH113
            yield LocalModule(name=entry, path=directory / entry)


def _module_name(entry: str, suffixes: Sequence[str]) -> str | None:
    for suffix in (_SOURCE, *suffixes):
        if entry.endswith(suffix):
            return entry.removesuffix(suffix)
    return None


def compiled_modules(package: Path) -> Iterator[str]:
    """The extension modules of a package, relative to it, the upper ones first."""
    folders = [package]
    count = 0
    while folders and count < _ENTRIES:
        folder = folders.pop(0)
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        count += len(entries)
        for entry in entries:
            if entry.name.endswith(".so"):
                yield str(Path(entry.path).relative_to(package))
            elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                folders.append(Path(entry.path))
