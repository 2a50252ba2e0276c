# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: one run at a time holds a directory, by a lock of the kernel."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Self

from ci_doctor.errors import UsageError

LOCK_FILE = ".ci-doctor.lock"
# flock(2) of a directory: a network file system makes it a lock of bytes, which needs a file that
# is open for writing (EBADF; flock(2), "NFS details"), or knows no locks of directories at all.
_NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO})


class DirectoryLock:
    """A directory that this run has locked, until `release`.

    The lock is the kernel's (flock(2)) on the directory itself: no file of ours stays, and a killed
    run leaves none held. Where directories cannot be locked it is on a file in it, which stays.
    Where there are no locks at all this is none.
    """

    def __init__(self, descriptors: tuple[int, ...]) -> None:
        # The first one is the directory's.
        self._descriptors = descriptors

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Lock the directory at `path`; None if another run has locked it. Raises UsageError."""
        try:
            # A directory can be opened to read only. With O_CLOEXEC no child process keeps it.
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(
                f"cannot use {path}: {error.strerror}", hint="name another --report-dir"
            ) from error
        lock = cls((directory,))
        try:
            taken = _locked(directory)
            if taken is None:
                taken = lock._take_file()
        except BaseException:
            lock.release()
            raise
        if not taken:
            lock.release()
            return None
        return lock

    def holds(self, path: Path) -> bool:
        """Whether `path` is still the directory that was locked, and not removed or replaced."""
        if not self._descriptors:
            return False
        try:
            there = path.stat()
        except OSError:
            return False
        return os.path.samestat(there, os.fstat(self._descriptors[0]))

    def release(self) -> None:
        """Release the lock; may be called again."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = ()

    def _take_file(self) -> bool:
        """Whether a lock file in the directory could be locked, or nothing can be locked there."""
        # The file is never removed: another run may have opened it, and would lock what nobody
        # finds any more.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(LOCK_FILE, flags, 0o644, dir_fd=self._descriptors[0])
        except OSError:
            return True  # without locks a report is still better than none
        self._descriptors = (*self._descriptors, file)
        return _locked(file) is not False


def _locked(descriptor: int) -> bool | None:
    """Whether the lock is ours now; None if the file system has none for such a file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True
