# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: which one a command writes its report to, held so that no other run deletes its evidence."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Self

from ci_doctor.errors import UsageError
from ci_doctor.render import REPORT_FILE, report_files
from ci_doctor.system.files.atomic import write_atomically

ROOT_VARIABLE = "CI_DOCTOR_REPORT_DIR"
# flock(2) on a network file system may be refused for a directory: then there is no lock to be had.
_NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO})


class ReportDirectory:
    """A directory that this run alone writes reports to, until `release`.

    The lock is the kernel's (flock(2)) on the directory itself: no file of ours stays, and a killed run leaves none held.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def hold(cls, path: Path) -> Self | None:
        """Make the directory if there is none, and lock it; None if another run holds it.

        Raises UsageError if it cannot be made or written.
        """
        # A file of no content tells more about what may be written than any look at modes and owners.
        probe = path / ".ci-doctor"
        write_atomically(probe, b"")
        _remove(probe)
        descriptor = _locked(path)
        return None if descriptor is None else cls(path, descriptor)

    def clear(self) -> None:
        """Remove what an earlier run reported here, so that it does not outlive this one. Raises UsageError."""
        for name in report_files():
            _remove(self.path / name)

    def release(self) -> None:
        """Let others write here."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def hold_below(root: Path, command: str) -> ReportDirectory:
    """`root/command`, or the first of `root/command-2`, `-3` … without a report and not held by another run.

    A job may run a command twice, at the same time too. Raises UsageError as `hold`.
    """
    number, path = 1, root / command
    while True:
        if not (path / REPORT_FILE).exists():
            directory = ReportDirectory.hold(path)
            if directory is not None:
                return directory
        number += 1
        path = root / f"{command}-{number}"


def hold_named(path: Path) -> ReportDirectory:
    """The directory that a person named. Raises UsageError also if another run holds it."""
    directory = ReportDirectory.hold(path)
    if directory is None:
        raise UsageError(
            f"another run of ci-doctor is writing to {path}",
            hint="name another --report-dir; each run needs its own",
        )
    return directory


def _locked(path: Path) -> int | None:
    """A file descriptor that holds the lock; -1 if the file system has no locks; None if another holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"cannot use {path}: {error.strerror}", hint="name another --report-dir"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as error:
        os.close(descriptor)
        if error.errno in _NO_LOCKS:
            return -1
        raise
    return descriptor


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot empty {path.parent}: {error}", hint="name another --report-dir"
        ) from error
