# SPDX-License-Identifier: Apache-2.0
"""Acts on files: keeps a log that a process appends to within its limit, by giving up its middle."""

import os
from collections.abc import Callable
from pathlib import Path

from ci_doctor.system.files.sparse import BLOCK_BYTES, free_range

_LEAST_BYTES = 64 * 1024
_BORDER_BYTES = (
    64 * 1024
)  # how far a line's beginning or end is looked for; a longer line is cut in two
_CHUNK_BYTES = 1024 * 1024


class LogBound:
    """The log at `path` may hold `limit_bytes` (at least 64 KiB); its first quarter and its last part are kept.

    Whoever writes must append (O_APPEND), and is neither stopped nor told. A log that is gone is none. `free` gives the
    disk space between two offsets back, or says that this file system cannot.
    """

    def __init__(
        self, path: Path, limit_bytes: int, free: Callable[[int, int, int], bool] = free_range
    ) -> None:
        self._path = path
        self._free = free
        self._limit = max(limit_bytes, _LEAST_BYTES)
        self._head = self._limit // 4 // BLOCK_BYTES * BLOCK_BYTES
        self._tail = self._limit // 2
        self._hole_end = self._head  # what is freed begins at _head and ends here
        self._size = 0
        self._taken_out = 0  # bytes at _head that are in the file no longer, not even as a hole

    def check(self) -> bool:
        """Give up the middle if the log has grown beyond the limit; whether it has grown at all since the last time."""
        try:
            size, before = os.stat(self._path).st_size, self._size  # noqa: PTH116 - asked several times a second
            self._size = size
            if size < self._hole_end:  # somebody has truncated it
                self._hole_end = self._head
            if size - (self._hole_end - self._head) > self._limit:
                self._cut((size - self._tail) // BLOCK_BYTES * BLOCK_BYTES)
        except OSError:
            return False
        return size != before

    def finish(self) -> str:
        """Once nobody writes any more: leave the head, a line that says what was cut, and the tail, at most the limit.

        Returns a sentence that says the same, nothing where nothing was cut. Where the disk is too full to write the
        file anew it stays as it is, with a hole that reads as zeros. What a survivor goes on writing is not kept.
        """
        try:
            size = self._path.stat().st_size
            if size <= self._limit and self._hole_end == self._head and not self._taken_out:
                return ""
            count = self._rewrite(size)
        except OSError:
            count = self._hole_end - self._head + self._taken_out
        return (
            f"{count:,} bytes were cut from the middle of {self._path.name}; {self._limit_words()}"
            if count
            else ""
        )

    def _cut(self, end: int) -> None:
        """Give up what lies between the head and `end`."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if self._free(descriptor, self._head, end):
                self._hole_end = end
            else:
                self._taken_out += end - self._head
                _take_out(descriptor, self._head, end)
        finally:
            os.close(descriptor)

    def _rewrite(self, size: int) -> int:
        """Put a copy without the middle in the log's place; how many bytes it lacks."""
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        source = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            head_end, mark = _line_end(source, min(self._head, size))
            earliest = max(self._hole_end, head_end, size - (self._limit - self._head))
            tail_start = _line_start(source, earliest, size)
            count = tail_start - head_end + self._taken_out
            note = f"{mark}[ci-doctor: {count:,} bytes were cut here; {self._limit_words()}]\n".encode()
            target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(target, os.fstat(source).st_mode & 0o777)
                _copy(source, target, 0, head_end)
                os.write(target, note)
                _copy(source, target, tail_start, size)
            finally:
                os.close(target)
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(source)
        return count

    def _limit_words(self) -> str:
        mebibytes, rest = divmod(self._limit, 2**20)
        return f"log_limit is {self._limit:,} bytes" if rest else f"log_limit is {mebibytes} MiB"


def _line_end(descriptor: int, before: int) -> tuple[int, str]:
    """Where the last whole line before that offset ends, or the offset itself and the newline that it then takes."""
    start = max(0, before - _BORDER_BYTES)
    newline = os.pread(descriptor, before - start, start).rfind(b"\n")
    return (start + newline + 1, "") if newline >= 0 else (before, "\n" if before else "")


def _line_start(descriptor: int, after: int, size: int) -> int:
    """Where the first whole line from that offset on begins, or the offset itself."""
    newline = os.pread(descriptor, min(_BORDER_BYTES, size - after), after).find(b"\n")
    return after + newline + 1 if newline >= 0 else after


def _copy(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        written = os.write(target, os.pread(source, min(_CHUNK_BYTES, end - start), start))
        if not written:  # the source has become shorter
            return
        start += written


def _take_out(descriptor: int, start: int, end: int) -> None:
    """Move what follows `end` to `start`, and shorten the file; for file systems that can have no holes.

    What is appended in the microseconds between the last look and the shortening is lost.
    """
    while chunk := os.pread(descriptor, _CHUNK_BYTES, end):
        os.pwrite(descriptor, chunk, start)
        start += len(chunk)
        end += len(chunk)
    os.ftruncate(descriptor, start)
