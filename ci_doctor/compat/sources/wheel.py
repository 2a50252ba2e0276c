# SPDX-License-Identifier: Apache-2.0
"""Reads wheels and other zip archives without unpacking them: local ones, or any seekable file."""

import zipfile
import zlib
from pathlib import Path
from typing import IO

from ci_doctor.compat.sources.code_tree import LARGEST_SOURCE, CodeTree
from ci_doctor.compat.sources.metadata import MetadataFields, metadata_fields
from ci_doctor.errors import UsageError


def wheel_tree(file: Path | IO[bytes], label: str, digest: str | None = None) -> CodeTree:
    """The members of a wheel. Raises UsageError if it is no zip archive."""
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise UsageError(
            f"{label} cannot be read: {error}", hint="name a complete wheel"
        ) from error
    sizes = {info.filename: info.file_size for info in archive.infolist()}

    def read(name: str) -> bytes:
        return _member(archive, name, sizes)

    fields = _fields(sizes, archive)
    return CodeTree(
        label=label,
        names=frozenset(filter(is_inside, sizes)),
        read=read,
        distribution=fields.name,
        version=fields.version,
        digest=digest,
    )


def is_inside(name: str) -> bool:
    """Whether a member's name stays below the archive's own root."""
    return (
        bool(name) and not name.startswith("/") and ".." not in name.split("/") and "\\" not in name
    )


def _member(archive: zipfile.ZipFile, name: str, sizes: dict[str, int]) -> bytes:
    # A zip bomb says its size, or ends at it: zipfile never gives more than the size in its directory.
    if sizes.get(name, 0) > LARGEST_SOURCE:
        raise OSError(f"{name} is larger than 4 MiB")
    try:
        with archive.open(name) as member:
            return member.read(LARGEST_SOURCE + 1)
    except (
        KeyError,
        zipfile.BadZipFile,
        zlib.error,
        RuntimeError,
        NotImplementedError,
        EOFError,
    ) as error:
        raise OSError(f"{name} cannot be read: {error}") from error


def _fields(sizes: dict[str, int], archive: zipfile.ZipFile) -> MetadataFields:
    for name in sizes:
        if name.endswith(".dist-info/METADATA") and name.count("/") == 1:
            return metadata_fields(_member(archive, name, sizes))
    return MetadataFields()
