# SPDX-License-Identifier: Apache-2.0
"""Reads source distributions (tar archives) into memory: regular files alone, within limits."""

import tarfile
import zlib
from pathlib import Path
from typing import Final

from ci_doctor.compat.sources.code_tree import LARGEST_SOURCE, CodeTree
from ci_doctor.compat.sources.metadata import MetadataFields, metadata_fields
from ci_doctor.compat.sources.wheel import is_inside
from ci_doctor.errors import UsageError

# vLLM's sdist has 30 MB in 5,000 files. Beyond these limits an archive is no package.
_MOST_MEMBERS: Final = 200_000
_MOST_BYTES: Final = 2 * 2**30
_KEPT: Final = (
    ".py",
    "/PKG-INFO",
    "/pyproject.toml",
    "/setup.py",
    "/CMakeLists.txt",
    "/MANIFEST.in",
)


def sdist_tree(path: Path, label: str) -> CodeTree:
    """The source in an sdist. Raises UsageError if it is no tar archive, or larger than the limits.

    Links, devices and names that lead out are skipped: nothing is ever written.
    """
    try:
        with tarfile.open(path, "r:*") as archive:
            files = _files(archive, label)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise UsageError(
            f"{label} cannot be read: {error}", hint="name a complete sdist"
        ) from error
    files = _without_top(files)
    fields = metadata_fields(files["PKG-INFO"]) if "PKG-INFO" in files else MetadataFields()

    def read(name: str) -> bytes:
        if name not in files:
            raise OSError(f"{name} is not in {label}")
        return files[name]

    return CodeTree(
        label=label,
        names=frozenset(files),
        read=read,
        distribution=fields.name,
        version=fields.version,
        is_built=False,
    )


def _files(archive: tarfile.TarFile, label: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    for count, member in enumerate(archive):
        total += member.size
        if count > _MOST_MEMBERS or total > _MOST_BYTES:
            raise UsageError(
                f"{label} has more than {_MOST_MEMBERS} members or 2 GiB",
                hint="name a smaller archive, or the package's directory",
            )
        name = member.name.removeprefix("./")
        if not member.isreg() or not is_inside(name) or member.size > LARGEST_SOURCE:
            continue
        if not name.endswith(_KEPT):
            continue
        content = archive.extractfile(member)
        if content is not None:
            files[name] = content.read()
    return files


def _without_top(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files below the one directory `name-version/` that every sdist has."""
    tops = {name.partition("/")[0] for name in files}
    if len(tops) != 1 or any("/" not in name for name in files):
        return files
    return {name.partition("/")[2]: content for name, content in files.items()}
