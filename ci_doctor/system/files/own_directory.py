# SPDX-License-Identifier: Apache-2.0
"""Reads the environment: where the processes of this user on this machine keep what they share."""

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ci_doctor.errors import UsageError

STATE_VARIABLE = "CI_DOCTOR_STATE_DIR"
# What `ci-doctor cache restore` has installed.
RECEIPTS = "receipts"
# An agent that runs as a service has no XDG_RUNTIME_DIR. The directory in it is checked before it is used.
_FALLBACK = "/tmp"  # noqa: S108


def machine_place(environ: Mapping[str, str]) -> Path:
    """`$CI_DOCTOR_STATE_DIR`, else `$XDG_RUNTIME_DIR/ci-doctor`, else `/tmp/ci-doctor-UID`."""
    named = environ.get(STATE_VARIABLE)
    runtime = environ.get("XDG_RUNTIME_DIR")
    if named:
        return Path(named)
    if runtime and Path(runtime).is_dir():
        return Path(runtime, "ci-doctor")
    return Path(_FALLBACK, f"ci-doctor-{os.geteuid()}")


# Of a character in mountinfo.
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_PREFIX: Final = "ci-doctor-tmp."
# mkdtemp appends eight of these characters (tempfile._RandomNameSequence).
_NAME: Final = re.compile(r"ci-doctor-tmp\.(?:[a-z-]+\.)?[a-z0-9_]{8}")


@contextlib.contextmanager
def own_directory(purpose: str = "", folder: Path | None = None) -> Iterator[str]:
    """A temporary directory, locked until it is removed. `purpose` stands in its name.

    It is made in `folder`, else where temporary files belong.
    """
    prefix = f"{_PREFIX}{purpose}." if purpose else _PREFIX
    with (
        tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True) as name,
        _opened(name) as descriptor,
    ):
        # Without locks nobody can tell that it is in use, nor that it is not: it is never removed.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield name


def lasting_directory(purpose: str) -> Path:
    """A temporary directory that outlives us, for what can be kept nowhere else. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}."))


def is_own_name(name: str) -> bool:
    """Whether a temporary directory of ours is called like this."""
    return _NAME.fullmatch(name) is not None


def abandoned_directories(folder: Path, now: float, least_age_s: float) -> list[Path]:
    """Directories in `folder` that this user's ci-doctor made, and that no ci-doctor uses any more.

    `now` is seconds since the epoch. One that was changed within `least_age_s` is left out, so that
    one that is just being made is never among them. Raises OSError if `folder` cannot be read.
    """
    paths = []
    for path in sorted(folder.iterdir()):
        if _NAME.fullmatch(path.name) is None:
            continue
        with contextlib.suppress(OSError):
            if now - path.lstat().st_mtime >= least_age_s and is_abandoned(path):
                paths.append(path)
    return paths


def is_abandoned(path: Path) -> bool:
    """Whether `path` is a directory of this user that nobody has locked. Raises OSError."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    with _opened(path) as descriptor:
        return _is_free(descriptor)


def remove_abandoned(path: Path) -> None:
    """Remove an abandoned directory, locked meanwhile.

    Raises UsageError if it is in use after all, not ours, or if something is mounted below it: that
    would be emptied too. OSError if it cannot be removed, or if it is unknown what is mounted.
    """
    with _opened(path) as descriptor:
        status = os.fstat(descriptor)
        if _NAME.fullmatch(path.name) is None or status.st_uid != os.geteuid():
            raise UsageError(f"{path} is not a temporary directory of this user's ci-doctor")
        if not _is_free(descriptor):
            raise UsageError(f"{path} is in use")
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
        mounted = mounted_below(mounts, Path(os.path.realpath(path)))
        if mounted is not None:
            raise UsageError(f"{mounted} is a mount, and its files are not ci-doctor's")
        shutil.rmtree(path)


def mounted_below(mounts: Iterable[str], path: Path) -> Path | None:
    """The first mount at or below `path` in lines of mountinfo (proc_pid_mountinfo(5)), if any.

    A bind mount has the same device as what lies around it, so os.path.ismount does not see it.
    """
    for line in mounts:
        fields = line.split(" ")
        if len(fields) < 5:
            continue
        point = Path(unescaped(fields[4]))
        if point.is_relative_to(path):
            return point
    return None


def unescaped(field: str) -> str:
    r"""Spaces and the like are written as `\040` in mountinfo."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[int]:
    # O_NOFOLLOW: a link may lead to anything.
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    """Whether the lock could be taken; it then lasts until the descriptor is closed.

    Raises OSError if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
