# SPDX-License-Identifier: Apache-2.0
"""Reads cache directories: the compiled files with their times, and whether files were read."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ci_doctor.caches.families.family import Family

_LONG_AGO_NS = 1_000_000_000
# Files of ours beside a restored cache, called as what a compiler makes. No library asks for them; who reads all files reads them too.
_DECOYS = "ci-doctor-decoys"


class ScannedFile(Struct, frozen=True, kw_only=True, gc=False):
    """A regular file: its path below the root, its size, and its times (ns since the epoch)."""

    path: str
    bytes: int
    mtime_ns: int
    atime_ns: int


def scan(root: Path, family: Family) -> tuple[ScannedFile, ...]:
    """The files of a cache, without those that are never saved; empty if there is no directory."""
    return tuple(
        file
        for file in _files(root, "")
        if not family.excludes(file.path) and not is_decoy(file.path)
    )


def is_decoy(path: str) -> bool:
    """Whether the file at `path`, relative to a cache, is one of ours that no library reads."""
    return path.partition("/")[0] == _DECOYS


def plant_decoy(root: Path, family: Family) -> None:
    """Put files beside the restored ones that only a program reads that reads everything."""
    folder = root / _DECOYS
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        for glob in ("all", *family.compiled):
            file = folder / glob.rpartition("/")[2].replace("*", "decoy")
            file.write_bytes(b"x")
            os.utime(file, ns=(_LONG_AGO_NS, _LONG_AGO_NS))


def read_decoys(root: Path) -> None:
    """Read them, because we read all files: from then on, times of reading prove nothing."""
    for file in _files(root / _DECOYS, ""):
        with contextlib.suppress(OSError):
            (root / _DECOYS / file.path).read_bytes()


def decoys_are_unread(root: Path) -> bool:
    """Whether the files of `plant_decoy` are there, and nobody has read one."""
    files = list(_files(root / _DECOYS, ""))
    return bool(files) and all(file.atime_ns == _LONG_AGO_NS for file in files)


def compiled_files(files: tuple[ScannedFile, ...], family: Family) -> list[ScannedFile]:
    """Those of which each stands for something compiled."""
    return [file for file in files if family.is_compiled(file.path)]


def keeps_read_times(root: Path) -> bool:
    """Whether the file system notes when a file was read: a file of ours is read to see."""
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir=root.parent) as file:
        file.write(b"x")
        file.flush()
        os.utime(file.name, ns=(_LONG_AGO_NS, _LONG_AGO_NS))
        Path(file.name).read_bytes()
        return os.stat(file.name).st_atime_ns > _LONG_AGO_NS  # noqa: PTH116 - as os.utime
    return False


def _files(directory: Path, front: str) -> Iterator[ScannedFile]:
    try:
        entries = list(os.scandir(directory))
    except OSError:  # it is gone, or somebody else's
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                yield from _files(Path(entry.path), f"{front}{entry.name}/")
            elif stat.S_ISREG(status.st_mode):
                yield ScannedFile(
                    path=front + entry.name,
                    bytes=status.st_size,
                    mtime_ns=status.st_mtime_ns,
                    atime_ns=status.st_atime_ns,
                )
