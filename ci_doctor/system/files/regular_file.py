# SPDX-License-Identifier: Apache-2.0
"""Reads a file whole, if it is one: a pipe would wait for ever, and a device may have no end."""

import os
import stat
from pathlib import Path
from typing import Final

# A snapshot with the hashes of a hundred thousand files has a tenth of it.
_MOST_BYTES: Final = 256 << 20


def open_at_once(path: Path | str, *, follow: bool = True, dir_fd: int | None = None) -> int:
    """A descriptor that reads `path`; the open of a pipe does not wait for its writer. Raises OSError.

    follow: whether a symbolic link is opened as what it leads to, or is an error. dir_fd: as of `os.open`. A file under a lease of
    another process refuses O_NONBLOCK (fcntl(2), F_SETLEASE): it is opened as soon as the lease is over.
    """
    kind = os.O_CLOEXEC if follow else os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | kind, dir_fd=dir_fd)
    except BlockingIOError:
        # The path may lead to a pipe by now; what this descriptor pins stays what it is.
        pinned = os.open(path, os.O_PATH | kind, dir_fd=dir_fd)
        try:
            if not stat.S_ISREG(os.fstat(pinned).st_mode):
                raise
            return os.open(f"/proc/self/fd/{pinned}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(pinned)


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
