# SPDX-License-Identifier: Apache-2.0
import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from ci_doctor.session.report_directory import LOCK_FILE, DirectoryLock


def test_one_at_a_time_and_no_file_stays(tmp_path: Path) -> None:
    first = DirectoryLock.take(tmp_path)

    assert first is not None
    assert DirectoryLock.take(tmp_path) is None
    first.release()
    assert DirectoryLock.take(tmp_path) is not None
    assert list(tmp_path.iterdir()) == []


def test_where_directories_have_no_locks_a_file_in_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on NFS: flock(2) becomes a lock of bytes, for which a file must be open for writing.
    flock = fcntl.flock

    def on_nfs(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", on_nfs)
    first = DirectoryLock.take(tmp_path)

    assert first is not None
    assert DirectoryLock.take(tmp_path) is None
    first.release()
    second = DirectoryLock.take(tmp_path)
    assert second is not None
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]


def test_where_nothing_can_be_locked_a_report_is_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without_locks)

    assert DirectoryLock.take(tmp_path) is not None
    assert DirectoryLock.take(tmp_path) is not None


def test_knows_whether_the_directory_is_still_the_same(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.mkdir()
    lock = DirectoryLock.take(path)
    assert lock is not None
    assert lock.holds(path)

    path.rmdir()
    assert not lock.holds(path)
    path.mkdir()
    assert not lock.holds(path)
    lock.release()
    assert not lock.holds(path)


def test_no_descriptor_is_left_behind(tmp_path: Path) -> None:
    held = DirectoryLock.take(tmp_path)
    assert held is not None
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    assert DirectoryLock.take(tmp_path) is None

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
