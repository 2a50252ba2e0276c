# SPDX-License-Identifier: Apache-2.0
"""Acts on files: a write is complete, or leaves the old content, though somebody removes the directory.

`Path.mkdir(exist_ok=True)` raises FileExistsError if the directory was there and vanishes before
the call looks again. Agents that share a directory remove it once it is empty.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ci_doctor.errors import UsageError

Made = TypeVar("Made")

# Each attempt is lost only to a removal at that very moment.
_ATTEMPTS = 1000


def make_directory(directory: Path, mode: int = 0o777) -> None:
    """Make `directory` with its parents, unless it is there; `mode` is its own. Raises OSError."""
    for attempt in range(_ATTEMPTS):
        try:
            directory.mkdir(mode, parents=True, exist_ok=True)
        # A parent vanished; or the directory did, before the call looked whether it is one.
        except (FileNotFoundError, FileExistsError):
            if os.path.lexists(directory) or attempt == _ATTEMPTS - 1:
                if directory.is_dir():
                    return
                raise
        else:
            return


def in_directory(directory: Path, act: Callable[[], Made]) -> Made:
    """Make `directory`, then `act` in it; again if it vanished before that.

    Returns what `act` returns. `act` is called again after FileNotFoundError alone. Raises OSError.
    """
    for _ in range(_ATTEMPTS - 1):
        make_directory(directory)
        try:
            return act()
        except FileNotFoundError:
            # Not asked whether it is there: somebody else may have made it again since.
            continue
    make_directory(directory)
    return act()


def write_atomically(
    path: Path, content: bytes, *, mode: int = 0o644, is_durable: bool = True
) -> None:
    """Write `content` under a temporary name beside `path`, then rename it.

    Not `is_durable`: whole after a killed process, and perhaps empty after a power loss, for what is
    worth nothing then and must be there at once.

    A symbolic link stays, and its target is written. Raises UsageError if that is not possible,
    or if `path` is not a regular file.
    """
    target = Path(os.path.realpath(path))
    # Renaming over /dev/null would take it away from the whole machine.
    if target.exists() and not target.is_file():
        raise UsageError(f"cannot write {path}: it is not a regular file", hint="name a file")
    try:
        in_directory(target.parent, lambda: _replace(target, content, mode, is_durable))
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}",
            hint="choose a directory that this user can write",
        ) from error


def _replace(target: Path, content: bytes, mode: int, is_durable: bool) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            # Before the rename: after a power loss some file systems would have an empty file.
            if is_durable:
                os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:  # also a signal: no temporary file stays behind
        temporary.unlink(missing_ok=True)
        raise
