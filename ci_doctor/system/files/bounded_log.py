# SPDX-License-Identifier: Apache-2.0
"""Acts on files: keeps a log that a process appends to within its limit, by freeing its middle.

The file becomes sparse: fallocate(2) with FALLOC_FL_PUNCH_HOLE.
"""

import errno
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

# linux/falloc.h
_KEEP_SIZE = 0x1
_PUNCH_HOLE = 0x2
_UNABLE = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV, errno.EPERM})
BLOCK_BYTES = 4096


@functools.cache
def _fallocate() -> "ctypes._NamedFuncPointer":
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    # GNU and musl both have the 64-bit name; the plain one takes 32-bit offsets on some.
    function = library.fallocate64 if hasattr(library, "fallocate64") else library.fallocate
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function


def free_range(descriptor: int, start: int, end: int) -> bool:
    """Free the bytes from `start` to `end` (multiples of BLOCK_BYTES).

    They read as zeros, and all offsets stay. False if the file system cannot (fallocate(2): NFS
    before 4.2, some FUSE). Raises OSError as fallocate does.
    """
    import ctypes

    if _fallocate()(descriptor, _KEEP_SIZE | _PUNCH_HOLE, start, end - start) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNABLE:
        return False
    raise OSError(number, os.strerror(number))


def is_sparse(descriptor: int) -> bool:
    """Whether some range of the file was freed or never written. Changes the position in it."""
    try:
        # lseek(2): the end of the file counts as a hole.
        return os.lseek(descriptor, 0, os.SEEK_HOLE) < os.fstat(descriptor).st_size
    except OSError:  # an empty file, or no file at all
        return False


_LEAST_BYTES = 64 * 1024
_BORDER_BYTES = 64 * 1024  # a line longer than this is cut in two
_CHUNK_BYTES = 1024 * 1024


class LogBound:
    """The log at `path` may hold `limit_bytes` (64 KiB at least): its first quarter and its end.

    The writers must append (O_APPEND); they notice nothing. A log that is gone has nothing to cut.
    `free` gives the disk space between two offsets back, or returns False if this file system
    cannot have sparse files: the log is then cut when nobody writes it any more. `setting` is the name under which a user sets the limit.
    """

    def __init__(
        self,
        path: Path,
        limit_bytes: int,
        free: Callable[[int, int, int], bool] = free_range,
        *,
        setting: str = "log_limit",
    ) -> None:
        self._path = path
        self._setting = setting
        self._free = free
        self._limit = max(limit_bytes, _LEAST_BYTES)
        self._head = self._limit // 4 // BLOCK_BYTES * BLOCK_BYTES
        self._tail = self._limit // 2
        self._freed_end = self._head  # what is freed begins at _head and ends here
        self._size = 0

    def check(self) -> bool:
        """Free the middle of a log beyond its limit; whether it has grown since the last check."""
        before = self._size
        try:
            self._size = os.stat(self._path).st_size  # noqa: PTH116 - called several times a second
            if self._size < self._freed_end:  # somebody has truncated it
                self._freed_end = self._head
            freed = self._freed_end - self._head
            if self._size - freed > self._limit:
                self._cut((self._size - self._tail) // BLOCK_BYTES * BLOCK_BYTES)
        except OSError:
            return False
        return self._size != before

    def finish(self) -> str:
        """Leave the head, a line that says what was cut, and the tail: at most the limit.

        For a log that nobody writes any more; what a survivor goes on writing is not kept. Returns
        a sentence that says the same, or nothing if nothing was cut. If the disk is too full to
        write the file anew, it stays sparse, with a freed part that reads as zeros.
        """
        try:
            size = self._path.stat().st_size
            if size <= self._limit and self._freed_end == self._head:
                return ""
            count = self._rewrite(size)
        except OSError:
            count = self._freed_end - self._head
        if not count:
            return ""
        name = self._path.name
        limit = self._limit_words()
        return f"{count:,} bytes were cut from the middle of {name}; {limit}"

    def _cut(self, end: int) -> None:
        """Free what lies between the head and `end`."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if self._free(descriptor, self._head, end):
                self._freed_end = end
        finally:
            os.close(descriptor)

    def _rewrite(self, size: int) -> int:
        """Put a copy without the middle in the log's place; how many bytes it lacks."""
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        source = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            head_end, mark = _line_end(source, min(self._head, size))
            # The tail must hold no freed part, no line of the head, and no more than the rest of
            # the limit.
            earliest = max(self._freed_end, head_end, size - (self._limit - self._head))
            # Where the first whole line from that offset on begins, or the offset itself.
            border = os.pread(source, min(_BORDER_BYTES, size - earliest), earliest)
            newline = border.find(b"\n")
            tail_start = earliest if newline < 0 else earliest + newline + 1
            count = tail_start - head_end
            limit = self._limit_words()
            note = f"{mark}[ci-doctor: {count:,} bytes were cut here; {limit}]\n"
            # 0600 until it has the log's own mode: the log may hold secrets.
            target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                mode = os.fstat(source).st_mode & 0o777
                os.fchmod(target, mode)
                _copy(source, target, 0, head_end)
                os.write(target, note.encode())
                _copy(source, target, tail_start, size)
            finally:
                os.close(target)
            # At once: a reader finds the old log or the new one.
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(source)
        return count

    def _limit_words(self) -> str:
        mebibytes, rest = divmod(self._limit, 2**20)
        if rest:
            return f"{self._setting} is {self._limit:,} bytes"
        return f"{self._setting} is {mebibytes} MiB"


def _line_end(descriptor: int, before: int) -> tuple[int, str]:
    """Where the last whole line before that offset ends, and what must stand before a new line.

    That is the offset itself, and a newline, if the line is too long to look for its end.
    """
    start = max(0, before - _BORDER_BYTES)
    border = os.pread(descriptor, before - start, start)
    newline = border.rfind(b"\n")
    if newline >= 0:
        return start + newline + 1, ""
    if not before:  # nothing stands before the new line
        return before, ""
    return before, "\n"


def _copy(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        chunk = os.pread(source, min(_CHUNK_BYTES, end - start), start)
        # It may write less than that, on a disk that is nearly full (write(2)).
        written = os.write(target, chunk)
        if not written:  # the source has become shorter
            return
        start += written
