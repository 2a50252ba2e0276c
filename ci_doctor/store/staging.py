# SPDX-License-Identifier: Apache-2.0
"""Acts on a directory of ours: writes files into it that nobody else can see yet."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ci_doctor.store.manifest import FileEntry

_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
TREE_NAME: Final = "tree"


class Stage:
    """An empty directory named `tree` in `folder`, which only this user may enter, and what is put there.

    The paths of entries were checked. The directories on the way are our own, so none is a link.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / TREE_NAME
        self.path.mkdir(mode=0o755)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(self.path, flags)

    def make_folders(self, paths: Iterable[str]) -> None:
        """Make the directories in which files of `paths` lie."""
        made = {""}
        for path in paths:
            _make(path.rpartition("/")[0], made, self.descriptor)

    def write(
        self, entry: FileEntry, content: bytes | memoryview, *, own_time: bool = False
    ) -> None:
        """Write the file of `entry`, with its mode and, unless `own_time`, its time. Raises OSError."""
        descriptor = os.open(entry.path, _WRITE, _mode(entry.mode), dir_fd=self.descriptor)
        try:
            _write_all(descriptor, content)
            if not own_time:
                os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(descriptor)

    def write_parts(self, entry: FileEntry, parts: Iterable[memoryview]) -> None:
        """Write the file of `entry` from several parts. Raises OSError."""
        descriptor = os.open(entry.path, _WRITE, _mode(entry.mode), dir_fd=self.descriptor)
        try:
            for part in parts:
                _write_all(descriptor, part)
            os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the descriptor; the directory stays."""
        os.close(self.descriptor)


def _make(folder: str, made: set[str], root: int) -> None:
    missing = []
    while folder not in made:
        missing.append(folder)
        folder = folder.rpartition("/")[0]
    for each in reversed(missing):
        os.mkdir(each, 0o755, dir_fd=root)
        made.add(each)


def _mode(mode: int) -> int:
    return 0o755 if mode & 0o100 else 0o644


def _write_all(descriptor: int, part: bytes | memoryview) -> None:
    written = os.write(descriptor, part)
    if written == len(part):
        return
    rest = memoryview(part)[written:]
    while rest:
        rest = rest[os.write(descriptor, rest) :]
