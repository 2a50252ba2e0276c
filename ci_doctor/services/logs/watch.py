# SPDX-License-Identifier: Apache-2.0
"""Reads a log while it is written, in bounded pieces, so that a flood delays nothing else."""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

from ci_doctor.system.files.inotify import FileWatch

_TURN_BYTES = 256 * 1024  # some milliseconds of work
# After a flood the newest lines are what explains a death; the rest is in the file.
_NEWEST_BYTES = 1024 * 1024
_BEHIND_BYTES = 16 * 1024 * 1024
_LONGEST_LINE_BYTES = 64 * 1024


class FatalLine:
    """Checks whether a line matches `pattern` anywhere. Raises re.error for an invalid pattern."""

    def __init__(self, pattern: str) -> None:
        self._search = re.compile(pattern).search

    def matches(self, line: str) -> bool:
        """Whether it does."""
        return self._search(line) is not None


class LogWatch:
    """Calls `on_lines` with the new whole lines of the file at `path`, from its beginning on.

    Made and used inside a running event loop. Bytes that are no UTF-8 are replaced, NULs left out.
    A line without an end is delivered at `close`, or in pieces once it exceeds 64 KiB. A reader
    that falls 16 MiB behind goes on at the newest 1 MiB, and `on_skipped` gets the number of unread
    bytes. A file that does not exist yet is waited for; one that replaces it later is not read.
    """

    def __init__(
        self,
        path: Path,
        on_lines: Callable[[list[str]], None],
        *,
        on_skipped: Callable[[int], None] | None = None,
    ) -> None:
        self._path = path
        self._on_lines = on_lines
        self._on_skipped = on_skipped
        self._loop = asyncio.get_running_loop()
        self._descriptor = -1
        self._offset = 0
        self._unfinished = b""
        self._next_turn: asyncio.Handle | None = None
        self._closed = False
        self._watch = FileWatch(path, self._turn_soon)
        self._turn_soon()

    def close(self) -> None:
        """Deliver what is still unread, at most the last 1 MiB, and stop; may be called again."""
        if self._closed:
            return
        self._closed = True
        self._watch.close()
        if self._next_turn is not None:
            self._next_turn.cancel()
        try:
            # Bounded, because a survivor may write on for ever.
            for _ in range(2 * _NEWEST_BYTES // _TURN_BYTES):
                if not self._read(_NEWEST_BYTES):
                    break
            self._finish_line()
        finally:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _turn_soon(self) -> None:
        if self._next_turn is None and not self._closed:
            self._next_turn = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._next_turn = None
        if self._read(_BEHIND_BYTES):
            self._turn_soon()

    def _read(self, most_behind: int) -> bool:
        """Read a piece; False if there is nothing more."""
        if self._descriptor < 0 and not self._open():
            return False
        size = os.fstat(self._descriptor).st_size
        self._offset = min(self._offset, size)  # somebody has truncated it
        if size - self._offset > most_behind:
            self._skip_to(size - _NEWEST_BYTES)
        # Freed parts read as zeros, gigabytes of them.
        end = self._end_of_data(size)
        if self._descriptor < 0:  # `on_skipped` has closed this watch
            return False
        piece = os.pread(self._descriptor, min(_TURN_BYTES, end - self._offset), self._offset)
        self._offset += len(piece)
        self._take(piece)
        return bool(piece)

    def _open(self) -> bool:
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        return True

    def _end_of_data(self, size: int) -> int:
        """Where the data from here on ends; a freed middle that begins here is skipped first."""
        try:
            data = os.lseek(self._descriptor, self._offset, os.SEEK_DATA)
            if data > self._offset:
                self._skip_to(data)
            return os.lseek(self._descriptor, data, os.SEEK_HOLE)
        except OSError:  # ENXIO: only a freed part follows, or the end (lseek(2))
            return size

    def _skip_to(self, offset: int) -> None:
        """Go on there: the line that was begun ends, and a rest of another counts as a line."""
        skipped = offset - self._offset
        self._offset = offset
        self._finish_line()
        if self._on_skipped is not None:
            self._on_skipped(skipped)

    def _take(self, piece: bytes) -> None:
        # NULs are of a part that LogBound has freed, or of a sparse file.
        text = self._unfinished + piece.replace(b"\0", b"")
        lines = text.split(b"\n")
        rest = lines.pop()
        while len(rest) > _LONGEST_LINE_BYTES:
            lines.append(rest[:_LONGEST_LINE_BYTES])
            rest = rest[_LONGEST_LINE_BYTES:]
        self._unfinished = rest
        self._deliver(lines)

    def _finish_line(self) -> None:
        line, self._unfinished = self._unfinished, b""
        if line:
            self._deliver([line])

    def _deliver(self, lines: list[bytes]) -> None:
        if not lines:
            return
        # `\r\n`, as a program writes that expects a terminal.
        texts = [line.decode(errors="replace").removesuffix("\r") for line in lines]
        self._on_lines(texts)
