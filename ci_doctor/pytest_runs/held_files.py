# SPDX-License-Identifier: Apache-2.0
"""Acts on files: those of a run of pytest, which no test can take away from us.

A test may remove any folder, fill a disk, or change permissions. What the recorder writes lies in memory
(memfd_create(2)), and its processes open it through our descriptor. A log is open while it is written.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from ci_doctor.errors import InfraError
from ci_doctor.system.files.own_directory import lasting_directory
from ci_doctor.system.files.writing import make_directory

_MODE = 0o600


class HeldFile:
    """A file that is open here. place: the path by which other processes open it."""

    def __init__(self, descriptor: int, place: str) -> None:
        self.place = place
        self._descriptor = descriptor

    def write(self, content: bytes) -> None:
        """Append `content`. Raises OSError."""
        while content:
            content = content[os.write(self._descriptor, content) :]

    def read(self) -> bytes:
        """All that it holds."""
        parts = []
        place = 0
        while part := os.pread(self._descriptor, 1 << 24, place):
            parts.append(part)
            place += len(part)
        return b"".join(parts)


@contextlib.contextmanager
def held_file(path: Path) -> Iterator[HeldFile]:
    """An empty file in memory; at `path` where no other process could open it. Raises OSError."""
    descriptor = os.memfd_create(path.name)
    place = f"/proc/{os.getpid()}/fd/{descriptor}"
    try:
        # Some sandboxes let nobody open it by that path.
        os.close(os.open(place, os.O_WRONLY | os.O_APPEND))
    except OSError:
        os.close(descriptor)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor, place = os.open(path, flags, _MODE), str(path)
    try:
        yield HeldFile(descriptor, place)
    finally:
        os.close(descriptor)


class KeptLog:
    """The log of one run at `path`, which is made again if a test removed it. To be closed."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def opened(cls, name: str, *folders: Path) -> Self:
        """An empty log in the first of `folders` that takes it, else in a new one. Raises InfraError."""
        return cls(*_first_log(name, folders))

    def close(self) -> None:
        """Restore it, and hold it no longer."""
        self.restore()
        os.close(self._descriptor)

    def restore(self) -> None:
        """Write the log anew if the file at its path is another one, or none."""
        ours = os.fstat(self._descriptor)
        try:
            there = self.path.lstat()
            if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                return
        except OSError:
            pass
        with contextlib.suppress(OSError):
            make_directory(self.path.parent)
            with open(f"/proc/self/fd/{self._descriptor}", "rb") as source:  # noqa: PTH123
                handle, name = tempfile.mkstemp(dir=self.path.parent)
                with os.fdopen(handle, "wb") as target:
                    shutil.copyfileobj(source, target)
            Path(name).replace(self.path)


def _first_log(name: str, folders: tuple[Path, ...]) -> tuple[Path, int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    problem = ""
    for folder in folders:
        try:
            make_directory(folder)
            path = folder / name
            return path, os.open(path, flags, _MODE)
        except OSError as error:
            problem = problem or f"{error.strerror}: {folder}"
    try:
        path = lasting_directory("pytest") / name
        return path, os.open(path, flags, _MODE)
    except OSError as error:
        raise InfraError(
            f"what pytest writes can be kept nowhere: {problem or error}",
            hint="the tests removed or locked the folder; look at the end of the output",
        ) from error
