# SPDX-License-Identifier: Apache-2.0
"""Reads a file whole, if it is one: a pipe would wait for ever, and a device may have no end."""

import os
import stat
from pathlib import Path
from typing import Final

# A snapshot with the hashes of a hundred thousand files has a tenth of it.
_MOST_BYTES: Final = 256 << 20


def read_regular(path: Path, most_bytes: int = _MOST_BYTES, *, follow: bool = True) -> bytes:
    """The content of `path`. Raises OSError, also for what is no file or is too large.

    follow: whether a symbolic link is read as the file that it leads to, or is an error.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    if not follow:
        flags |= os.O_NOFOLLOW
    descriptor = os.open(path, flags)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        if status.st_size > most_bytes:
            raise OSError(0, f"it is larger than {most_bytes >> 20} MiB")
        return file.read(most_bytes)
