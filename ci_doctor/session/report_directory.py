# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: locks a command's report directory, so that no other run clears it."""

import errno
import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from ci_doctor.errors import InfraError, UsageError, shortage
from ci_doctor.render import report_files
from ci_doctor.system.files.access import make_directory, write_atomically

ROOT_VARIABLE = "CI_DOCTOR_REPORT_DIR"
_SHORT: Final = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}


class ReportDirectory:
    """A directory that this run has locked for its reports, until `release`.

    The lock is the kernel's (flock(2)) on the directory itself: no file of ours stays, and a killed
    run leaves none held. Where directories cannot be locked, as over NFS, this is none.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def lock(cls, path: Path) -> Self | None:
        """Make the directory if there is none, and lock it; None if another run has locked it.

        Raises UsageError if it cannot be made or written, InfraError if its disk is full.
        """
        _probe(path)
        descriptor = _locked(path)
        return None if descriptor is None else cls(path, descriptor)

    def clear(self) -> None:
        """Remove an earlier run's report files, so that a stale report is not taken for this run's.

        Raises UsageError.
        """
        for name in report_files():
            _remove(self.path / name)

    def lost(self) -> str | None:
        """Why a report must not be written here any more, as a sentence; None if it may be.

        A directory that was removed is made and locked again. The one that another run made in its
        place is that run's.
        """
        if self._is_there():
            return None
        try:
            make_directory(self.path)
            descriptor = _locked(self.path)
        except (OSError, UsageError) as error:
            return f"cannot write to {self.path}: {error}"
        if descriptor is None:
            return f"another run of ci-doctor has taken the place of {self.path}"
        if any((self.path / name).exists() for name in report_files()):
            os.close(descriptor)
            return (
                f"another directory is in the place of {self.path}, with the report of another run"
            )
        self.release()
        self._descriptor = descriptor
        return None

    def _is_there(self) -> bool:
        """Whether the directory that was locked is still there, and not removed or replaced."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock; may be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock of a directory; None if another run does. Raises UsageError."""
    try:
        # A directory can be opened to read only. With O_CLOEXEC no child process keeps it.
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _refusal(f"cannot use {path}", error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    # A report without a lock is still better than none: flock(2), "NFS details".
    except OSError:
        return descriptor
    return descriptor


def lock_free_below(root: Path, command: str) -> ReportDirectory:
    """`root/command`, or the first of `root/command-2`, `-3` … that is free.

    A directory is free if nothing is in it and no other run has locked it. A job may run a command
    twice, at the same time too. Raises UsageError as `ReportDirectory.lock`.
    """
    number = 1
    path = root / command
    while True:
        # A report stays even if its run is over: the job's artifacts are collected at its end. So
        # does what a killed run has left, which has no report.
        if _is_empty(path):
            directory = ReportDirectory.lock(path)
            # Again, behind the lock: the run that held it may have ended meanwhile, with a report.
            if directory is not None and _is_empty(path):
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


def _probe(path: Path) -> None:
    """Write a file and remove it: permission bits do not show ACLs, a read-only mount, a quota."""
    probe = path / ".ci-doctor"
    try:
        # Some bytes, as an empty file takes no room and would be written to a full disk.
        write_atomically(probe, b"a probe of ci-doctor\n")
    except UsageError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _SHORT:
            raise _refusal(f"cannot write to {path}", cause) from error
        raise
    _remove(probe)


def _is_empty(path: Path) -> bool:
    """Whether there is nothing at `path`, or a directory with temporary files of ours alone."""
    try:
        return all(name.startswith(".") for name in os.listdir(path))  # noqa: PTH208 - names only
    except FileNotFoundError:
        return True
    except OSError as error:
        # A file in its place is one thing, a file above it another: no number would help then.
        if isinstance(error, NotADirectoryError) and os.path.lexists(path):
            return False
        raise _refusal(f"cannot use {path}", error) from error


def _refusal(words: str, error: OSError) -> UsageError | InfraError:
    """What a directory that cannot be used comes to: of what the machine has not got, no other directory has more."""
    lacking = shortage(error) if error.errno in _SHORT else None
    message = f"{words}: {error.strerror or error}"
    if lacking is None:
        return UsageError(message, hint="name another --report-dir")
    return InfraError(message, hint=lacking.hint)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot empty {path.parent}: {error}", hint="name another --report-dir"
        ) from error


_FILE = ".folders.json"


def published_elsewhere(job_id: str, own: Sequence[Path]) -> list[Path]:
    """The directories that this job has published before, beside its `own`, which are kept now.

    Nothing without `$CI_DOCTOR_REPORT_DIR`, where they are kept.
    """
    root = os.environ.get(ROOT_VARIABLE)
    if not root:
        return []
    path = Path(root) / _FILE
    known = _kept(path, job_id)
    names = [str(each.absolute()) for each in own]
    others = [each for each in known if each not in names]
    if set(names) - set(known):
        _keep(path, job_id, [*others, *names])
    return [Path(each) for each in others]


def _keep(path: Path, job_id: str, names: list[str]) -> None:
    content = json.dumps({"job": job_id, "folders": names}).encode()
    # Without it, the last call shows its own reports alone.
    try:
        write_atomically(path, content)
    except (OSError, UsageError):
        return


def _kept(path: Path, job_id: str) -> list[str]:
    try:
        kept = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return []
    # Another job may have had the same directory.
    if not isinstance(kept, dict) or kept.get("job") != job_id:
        return []
    folders = kept.get("folders")
    if not isinstance(folders, list):
        return []
    return [each for each in folders if isinstance(each, str)]
