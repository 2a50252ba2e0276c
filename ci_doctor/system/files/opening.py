# SPDX-License-Identifier: Apache-2.0
"""Acts on files: opens them so that nothing waits for ever, without a name, or in place of closed streams.

It also names the file that a mistyped path means.
"""

import errno
import os
import stat
import tempfile
from itertools import islice
from pathlib import Path
from typing import IO, Final

from ci_doctor.model.words import nearest

# A snapshot with the hashes of a hundred thousand files has a tenth of it.
_MOST_BYTES: Final = 256 << 20
_MOST_NAMES: Final = 2000


def near_path(path: Path) -> str | None:
    """The question that names the entry which a path without one means; None if none is near."""
    # A path in a configuration starts from its directory, and people type it from where they are.
    for directory in (path.parent, Path()):
        try:
            names = sorted(each.name for each in islice(directory.iterdir(), _MOST_NAMES))
        except OSError:
            continue
        near = nearest(path.name, names)
        if near is None:
            # `prompts` and `prompts.jsonl`, in whatever length.
            near = next((each for each in names if Path(each).stem == path.stem), None)
        if near is not None:
            return f"did you mean `{directory / near}`?"
    return None


def open_at_once(path: Path | str, *, follow: bool = True, dir_fd: int | None = None) -> int:
    """A descriptor that reads `path`; the open of a pipe does not wait for its writer. Raises OSError.

    follow: whether a symbolic link is opened as what it leads to, or is an error. dir_fd: as of `os.open`.
    """
    kind = os.O_CLOEXEC if follow else os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | kind, dir_fd=dir_fd)
    except BlockingIOError:
        # A program may hold a lease on the file (F_SETLEASE of fcntl(2)). The kernel asks for it, and
        # takes it away after `/proc/sys/fs/lease-break-time`.
        # This opens no content: neither a lease nor a pipe holds it up.
        place = os.open(path, os.O_PATH | kind, dir_fd=dir_fd)
        try:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
            return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(place)


def read_regular(path: Path, most_bytes: int = _MOST_BYTES, *, follow: bool = True) -> bytes:
    """The content of `path`. Raises OSError, also for what is no file or is too large.

    follow: whether a symbolic link is read as the file that it leads to, or is an error.
    """
    descriptor = open_at_once(path, follow=follow)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        if status.st_size > most_bytes:
            raise OSError(0, f"it is larger than {most_bytes >> 20} MiB")
        return file.read(most_bytes)


def unnamed_file() -> IO[bytes]:
    """An empty file that is gone once it is closed, open for reading and writing.

    It lies in the temporary directory. If nothing can be written there (no such directory, a full
    or a read-only disk), it lies in memory. Raises OSError.
    """
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.memfd_create("output"), "w+b")  # noqa: PTH123 - a descriptor has no path


def open_closed_streams() -> None:
    """Open /dev/null at each of 0, 1 and 2 that is closed. Raises OSError if that fails.

    Otherwise the next file that we open gets that number (open(2)), and a child that inherits our
    streams would write into it.
    """
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            break
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
