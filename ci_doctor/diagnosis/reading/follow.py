# SPDX-License-Identifier: Apache-2.0
"""Reads logs while they are written: their new lines, as soon as the kernel reports a change.

    async with contextlib.aclosing(follow([Path("server.log")])) as growth:
        async for news in growth:
            ...  # news.log, news.lines, news.is_restarted

The generator never ends by itself: the caller breaks out of the loop or cancels its task.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.diagnosis.reading.log_text import LONGEST_LINE_BYTES, TextLine
from ci_doctor.system.files.inotify import FileWatch

# What is read before the caller and the event loop get their turn: some milliseconds of work.
_TURN_BYTES = 1024 * 1024


class NewLines(Struct, frozen=True, kw_only=True):
    """Lines that one of the logs has got.

    log: its index in the paths that are followed. lines: whole ones, in order; their numbers and
    offsets count from the start of the file. is_restarted: the file was truncated or replaced
    before these lines, so their numbers begin at 1 again.
    """

    log: int
    lines: tuple[TextLine, ...]
    is_restarted: bool = False


async def follow(paths: Sequence[Path]) -> AsyncGenerator[NewLines, None]:
    """New lines of the logs at `paths`: first what they hold already, then what is written.

    A file that does not exist yet is waited for. A file that replaces another (log rotation) is
    read from its start, after the rest of the old one. A truncated file is read from its start;
    this is noticed only if it is shorter than what was read before. A line without a newline is
    handed out when it is finished, or in pieces with one number once it exceeds 64 KiB.
    """
    changed = asyncio.Event()
    logs = [_GrowingLog(path) for path in paths]
    watches = [FileWatch(path, changed.set) for path in paths]
    try:
        while True:
            changed.clear()
            for index, log in enumerate(logs):
                for lines, is_restarted in log.new_lines():
                    yield NewLines(log=index, lines=lines, is_restarted=is_restarted)
                    await asyncio.sleep(0)
            await changed.wait()
    finally:
        for watch in watches:
            watch.close()
        for log in logs:
            log.close()


class _GrowingLog:
    """A file, how far it was read, and the line that is not finished yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._start_again()

    def _start_again(self) -> None:
        self._offset = 0
        self._number = 1
        self._unfinished = b""
        self._is_restarted = False

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def new_lines(self) -> Iterator[tuple[tuple[TextLine, ...], bool]]:
        """The lines since the last call, in turns, and whether the file began anew before them."""
        if self._descriptor < 0 and not self._open():
            return
        while True:
            self._check_truncation()
            yield from self._rest()
            if not self._is_replaced():
                return
            self.close()
            if not self._open():
                return
            self._start_again()
            self._is_restarted = True

    def _open(self) -> bool:
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        return True

    def _check_truncation(self) -> None:
        if os.fstat(self._descriptor).st_size < self._offset + len(self._unfinished):
            self._start_again()
            self._is_restarted = True

    def _is_replaced(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            # Between the two halves of a rotation; the watch reports the new file.
            return False
        return not os.path.samestat(there, os.fstat(self._descriptor))

    def _rest(self) -> Iterator[tuple[tuple[TextLine, ...], bool]]:
        while True:
            unread = self._offset + len(self._unfinished)
            piece = os.pread(self._descriptor, _TURN_BYTES, unread)
            if not piece:
                return
            lines = tuple(self._take(piece))
            if lines:
                is_restarted, self._is_restarted = self._is_restarted, False
                yield lines, is_restarted

    def _take(self, piece: bytes) -> Iterator[TextLine]:
        """The lines that `piece` finishes."""
        whole = (self._unfinished + piece).split(b"\n")
        self._unfinished = whole.pop()
        for content in whole:
            yield from self._pieces(content)
            self._offset += 1
            self._number += 1
        while len(self._unfinished) > LONGEST_LINE_BYTES:
            content = self._unfinished[:LONGEST_LINE_BYTES]
            self._unfinished = self._unfinished[LONGEST_LINE_BYTES:]
            yield from self._pieces(content)

    def _pieces(self, content: bytes) -> Iterator[TextLine]:
        for start in range(0, max(1, len(content)), LONGEST_LINE_BYTES):
            yield TextLine(self._number, self._offset, content[start : start + LONGEST_LINE_BYTES])
            self._offset += len(content[start : start + LONGEST_LINE_BYTES])
