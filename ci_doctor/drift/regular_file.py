# SPDX-License-Identifier: Apache-2.0
"""Reads a file whole, if it is one: a pipe would wait for ever, and a device may have no end."""

import os
import stat
from pathlib import Path
from typing import Final

# A snapshot with the hashes of a hundred thousand files has a tenth of it.
_MOST_BYTES: Final = 256 << 20


def read_regular(path: Path) -> bytes:
    """The content of `path`. Raises OSError, also for what is no file or is too large."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        if status.st_size > _MOST_BYTES:
            raise OSError(0, f"it is larger than {_MOST_BYTES >> 20} MiB")
        return file.read(_MOST_BYTES)
