# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: locks a command's report directory, so that no other run clears it."""

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
    """A directory that this run has locked for its reports, until `release`.

    The lock is the kernel's (flock(2)) on the directory itself: no file of ours stays, and a killed
    run leaves none held.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def lock(cls, path: Path) -> Self | None:
        """Make the directory if there is none, and lock it; None if another run has locked it.

        Raises UsageError if it cannot be made or written.
        """
        # Write a probe file: permission bits do not show ACLs or a read-only mount.
        probe = path / ".ci-doctor"
        write_atomically(probe, b"")
        _remove(probe)
        descriptor = _try_lock(path)
        if descriptor is None:
            return None
        return cls(path, descriptor)

    def clear(self) -> None:
        """Remove an earlier run's report files, so that a stale report is not taken for this run's.

        Raises UsageError.
        """
        for name in report_files():
            _remove(self.path / name)

    def release(self) -> None:
        """Release the lock; may be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock_free_below(root: Path, command: str) -> ReportDirectory:
    """`root/command`, or the first of `root/command-2`, `-3` … that is free.

    A directory is free if it holds no report and no other run has locked it. A job may run a
    command twice, at the same time too. Raises UsageError as `ReportDirectory.lock`.
    """
    number = 1
    path = root / command
    while True:
        # A report stays even if its run is over: the job's artifacts are collected at its end.
        if not (path / REPORT_FILE).exists():
            directory = ReportDirectory.lock(path)
            # Again, behind the lock: the run that held it may have ended meanwhile, with a report.
            if directory is not None and not (path / REPORT_FILE).exists():
                return directory
            if directory is not None:
                directory.release()
        number += 1
        path = root / f"{command}-{number}"


def lock_default(path: Path) -> ReportDirectory:
    """`path`, or the first of `path-2`, `path-3` … that no other run has locked. Raises UsageError as `lock`.

    Nobody named it, so nobody waits for a report in it: a run below another one takes the next.
    """
    number = 1
    candidate = path
    while True:
        directory = ReportDirectory.lock(candidate)
        if directory is not None:
            return directory
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")


def lock_named(path: Path) -> ReportDirectory:
    """The directory that a person named. Raises UsageError also if another run holds it."""
    directory = ReportDirectory.lock(path)
    if directory is None:
        raise UsageError(
            f"another run of ci-doctor is writing to {path}",
            hint="name another --report-dir; each run needs its own",
        )
    return directory


def _try_lock(path: Path) -> int | None:
    """A file descriptor that holds the lock; -1 if the file system has none.

    None if another run has locked it.
    """
    # A directory can be opened to read only. With O_CLOEXEC no child process keeps the lock.
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
        # Without locks a report is still better than none.
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
