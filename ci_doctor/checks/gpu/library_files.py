# SPDX-License-Identifier: Apache-2.0
"""Reads files of CUDA libraries: which wheel's lies there, and which others the loader would find."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.gpu.cuda_wheels import CudaWheel

_RECORD_LIMIT: Final = 4 << 20
_MAPS_LIMIT: Final = 8 << 20
# The libraries that serve models, and of which two versions are known to disturb each other.
_NAMES: Final = ("libnccl.so", "libcudnn.so", "libcublas.so", "libcublasLt.so", "libcudart.so")
_MAPPED = re.compile(
    rb" (/[^\n]*/((?:libnccl|libcudnn|libcublas|libcublasLt|libcudart)\.so[0-9.]*))"
    rb"(?: \(deleted\))?$",
    re.MULTILINE,
)


class LibraryFile(Struct, frozen=True, kw_only=True):
    """A library's file. `name` is without a version; `version` is that of the file's name."""

    name: str
    path: Path
    version: str


def owner_of(wheels: Sequence[CudaWheel], place: str) -> CudaWheel | None:
    """Whose file lies at `place`, by its size in the RECORD of each wheel; None if unsure."""
    owners = []
    for wheel in wheels:
        folder = wheel.distribution.folder
        recorded = _recorded_size(folder / "RECORD", place)
        if recorded is not None and recorded == _size(folder.parent / place):
            owners.append(wheel)
    if len(owners) != 1:
        return None
    return owners[0]


def _recorded_size(record: Path, place: str) -> int | None:
    """Of the line `path,sha256=…,size` (PyPA, Recording installed projects)."""
    try:
        with record.open(errors="replace") as file:
            text = file.read(_RECORD_LIMIT)
    except OSError:
        return None
    for line in text.splitlines():
        path, _, rest = line.partition(",")
        size = rest.rpartition(",")[2]
        if path == place and size.isdigit():
            return int(size)
    return None


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def library_files(directories: Iterable[Path]) -> Iterator[LibraryFile]:
    """The first file of each library in `directories`, as the loader would take it."""
    done = set()
    for directory in directories:
        for name in _NAMES:
            if name in done:
                continue
            file = _file(directory, name)
            if file is not None:
                done.add(name)
                yield file


def _file(directory: Path, name: str) -> LibraryFile | None:
    """Programs ask for `libnccl.so.2`; the file that it links to has the whole version."""
    try:
        paths = sorted(directory.glob(f"{name}.[0-9]*"))
    except OSError:
        return None
    for path in paths:
        version = path.resolve().name.removeprefix(f"{name}.")
        return LibraryFile(name=name, path=path, version=version)
    return None


def mapped_twice(maps: Path) -> list[tuple[str, list[str]]]:
    """The libraries that a process has loaded from two places, with the places.

    Raises OSError if this user may not see them (proc_pid_maps(5)).
    """
    with maps.open("rb") as file:
        text = file.read(_MAPS_LIMIT)
    places: dict[str, set[str]] = {}
    for path, name in _MAPPED.findall(text):
        library = name.decode().partition(".so")[0]
        places.setdefault(library, set()).add(path.decode(errors="replace"))
    several = []
    for library, paths in sorted(places.items()):
        if len(paths) > 1:
            several.append((library, sorted(paths)))
    return several
