# SPDX-License-Identifier: Apache-2.0
"""Reads a directory as a tree of source. Links that lead out of it are left out."""

import os
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ci_doctor.compat.sources.code_tree import LARGEST_SOURCE, CodeTree, GitPlace
from ci_doctor.compat.sources.metadata import MetadataFields, metadata_fields
from ci_doctor.errors import UsageError
from ci_doctor.git import ask_git

# Never a part of the package itself.
_LEFT_OUT: Final = frozenset(
    {"__pycache__", "node_modules", "build", "dist", "site-packages", "venv", "third_party"}
)
_SUFFIXES: Final = (".py", ".so", ".pyx")
_VERSION_LINE: Final = re.compile(
    r"""^__version__\s*(?::\s*str\s*)?=\s*["']([^"']+)["']""", re.MULTILINE
)
_MOST_FILES: Final = 200_000


def directory_tree(path: Path, label: str) -> CodeTree:
    """The source below `path`. Raises UsageError if it has no Python file."""
    top = path.resolve()
    inside = ""
    if (top / "__init__.py").is_file():
        # The package itself was named, and not the directory that holds it.
        inside = f"{top.name}/"
        top = top.parent
    names = frozenset(_names(top, inside))
    if not any(name.endswith(".py") for name in names):
        raise UsageError(f"{label} has no Python file", hint="name the directory of a package")

    def read(name: str) -> bytes:
        return read_inside(top, name)

    fields = _metadata(names, read)
    return CodeTree(
        label=label,
        names=names,
        read=read,
        distribution=fields.name,
        version=fields.version,
        is_built=False,
        place=_place(top),
    )


def _names(top: Path, inside: str) -> Iterator[str]:
    count = 0
    for folder, below, files in os.walk(top / inside if inside else top):
        below[:] = sorted(each for each in below if _is_walked(Path(folder), each))
        relative = Path(folder).relative_to(top).as_posix()
        prefix = "" if relative == "." else f"{relative}/"
        for name in files:
            count += 1
            if count > _MOST_FILES:
                raise UsageError(
                    f"{top} has more than {_MOST_FILES} files", hint="name the package's directory"
                )
            if name.endswith(_SUFFIXES) or (not prefix and not name.startswith(".git/")):
                yield f"{prefix}{name}"


def _is_walked(folder: Path, name: str) -> bool:
    return not name.startswith(".") and name not in _LEFT_OUT and not (folder / name).is_symlink()


def read_inside(top: Path, name: str) -> bytes:
    """The content of a file below `top`. Raises OSError if it leads out, is no file or too large."""
    path = top / name
    real = path.resolve()
    if not real.is_relative_to(top):
        raise OSError(f"{name} is a link that leads out of the directory")
    # A device or a pipe would block, and a file of any size would be read whole.
    if not real.is_file() or real.stat().st_size > LARGEST_SOURCE:
        raise OSError(f"{name} is no file of at most 4 MiB")
    return real.read_bytes()


def _metadata(names: frozenset[str], read: Callable[[str], bytes]) -> MetadataFields:
    if "PKG-INFO" in names:
        return metadata_fields(read("PKG-INFO"))
    name = version = None
    if "pyproject.toml" in names:
        try:
            project = tomllib.loads(read("pyproject.toml").decode()).get("project", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError):
            project = {}
        name, version = project.get("name"), project.get("version")
    return MetadataFields(name=name, version=version or _literal_version(names, read))


def _literal_version(names: frozenset[str], read: Callable[[str], bytes]) -> str | None:
    """The version that a package's `__init__.py`, `version.py` or `_version.py` states."""
    places = ("__init__.py", "version.py", "_version.py", "__version__.py")
    wanted = [name for name in sorted(names) if name.count("/") <= 2 and name.endswith(places)]
    versions = set()
    for name in wanted:
        if name.rpartition("/")[2] in places:
            try:
                match = _VERSION_LINE.search(read(name).decode("utf-8", "replace"))
            except OSError:
                continue
            if match is not None:
                versions.add(match.group(1))
    return versions.pop() if len(versions) == 1 else None


def _place(top: Path) -> GitPlace | None:
    root = ask_git(top, "rev-parse", "--show-toplevel")
    if root is None:
        return None
    below = top.relative_to(Path(root).resolve()).as_posix()
    return GitPlace(repository=Path(root), revision="HEAD", below="" if below == "." else below)
