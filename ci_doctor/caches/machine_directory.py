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
from ci_doctor.system.files.directories import make_directory

# An agent that runs as a service has no XDG_RUNTIME_DIR.
_FALLBACK = "/tmp"  # noqa: S108 - the directory in it is checked below
STATE_VARIABLE = "CI_DOCTOR_STATE_DIR"


def machine_directory(environ: Mapping[str, str], *, make: bool = True) -> Path:
    """The directory of mode 0700 that belongs to this user; made if it is missing and `make`.

    `$CI_DOCTOR_STATE_DIR`, else `$XDG_RUNTIME_DIR/ci-doctor`, else `/tmp/ci-doctor-UID`. Raises
    StoreError if it is a link, belongs to somebody else, or cannot be made.
    """
    user = os.geteuid()
    named = environ.get(STATE_VARIABLE)
    runtime = environ.get("XDG_RUNTIME_DIR")
    if named:
        path = Path(named)
    elif runtime and Path(runtime).is_dir():
        path = Path(runtime, "ci-doctor")
    else:
        path = Path(_FALLBACK, f"ci-doctor-{user}")
    try:
        if make:
            make_directory(path, 0o700)
        status = path.lstat()
    except OSError as error:
        raise _refused(f"cannot use {path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise _refused(f"{path} is no directory")
    if status.st_uid != user:
        raise _refused(f"{path} belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise _refused(f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})")
    return path


def _refused(message: str) -> StoreError:
    hint = f"remove it, or name another directory in {STATE_VARIABLE}"
    return StoreError(StoreFailure.REFUSED, message, hint=hint)
