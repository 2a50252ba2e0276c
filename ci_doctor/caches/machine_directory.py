# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: the one in which the processes of this user on this machine agree.

It holds locks, results and receipts. Others must not be able to write to it: a result placed by them
would be believed.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.store.errors import StoreError, StoreFailure
from ci_doctor.system.files.own_directory import STATE_VARIABLE, machine_place
from ci_doctor.system.files.writing import make_directory


def machine_directory(environ: Mapping[str, str], *, make: bool = True) -> Path:
    """The directory of mode 0700 that belongs to this user; made if it is missing and `make`.

    It is that of machine_place(). Raises StoreError if it is a link, belongs to somebody else, or cannot
    be made.
    """
    path = machine_place(environ)
    try:
        if make:
            make_directory(path, 0o700)
        status = path.lstat()
    except OSError as error:
        raise _refused(f"cannot use {path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise _refused(f"{path} is no directory")
    if status.st_uid != os.geteuid():
        raise _refused(f"{path} belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise _refused(f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})")
    return path


def _refused(message: str) -> StoreError:
    hint = f"remove it, or name another directory in {STATE_VARIABLE}"
    return StoreError(StoreFailure.REFUSED, message, hint=hint)
