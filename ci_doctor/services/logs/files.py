# SPDX-License-Identifier: Apache-2.0
"""Acts on files: makes a log for each start of a service."""

import errno
import os
from pathlib import Path

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.system.files.writing import make_directory

# These say nothing about the path: another job on this machine would get them too.
_EXHAUSTED = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


def open_log(directory: Path, name: str) -> tuple[Path, int]:
    """A new file `NAME-1.log`, or with the next free number, and a descriptor that appends to it.

    Raises UsageError if it cannot be made, and InfraError if the machine has no disk space or
    file descriptor left for it.
    """
    number = 1
    try:
        make_directory(directory)
        while True:
            path = directory / f"{name}-{number}.log"
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
            try:
                return path, os.open(path, flags, 0o644)
            except FileExistsError:
                number += 1
    except OSError as error:
        message = f"cannot write logs to {directory}: {error.strerror or error}"
        if error.errno in _EXHAUSTED:
            hint = "free some space on that disk, or raise `ulimit -n`"
            raise InfraError(message, hint=hint) from error
        raise UsageError(message, hint="choose a directory that this user can write") from error


def is_out_of_space(path: Path) -> bool:
    """Whether not one byte more fits into the log: its last block is full, and so is its disk.

    Then the last words of its process are not in it (statvfs(3)).
    """
    try:
        size = path.stat().st_size
        disk = os.statvfs(path)
    except OSError:
        return False
    # A file system keeps some blocks for root alone.
    free = disk.f_bavail
    if os.geteuid() == 0:
        free = disk.f_bfree
    return free == 0 and disk.f_blocks > 0 and size % disk.f_frsize == 0
