# SPDX-License-Identifier: Apache-2.0
"""Acts on files: every write is whole or not at all."""

import os
import tempfile
from pathlib import Path

from ci_doctor.errors import UsageError


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write `content` under a temporary name beside `path`, then rename. A symbolic link stays, and its target is written.

    Raises UsageError where that is not possible, or where `path` is something else than a file (renaming over /dev/null
    would take it away from the whole machine).
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise UsageError(f"cannot write {path}: it is not a regular file", hint="name a file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, content, mode)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}",
            hint="choose a directory that this user can write",
        ) from error


def _replace(target: Path, content: bytes, mode: int) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:  # also a signal: nothing of ours stays behind
        temporary.unlink(missing_ok=True)
        raise
