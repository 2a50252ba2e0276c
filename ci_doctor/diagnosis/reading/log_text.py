# SPDX-License-Identifier: Apache-2.0
"""Reads one log, of which any part can be read again."""

import os
from collections.abc import Callable, Iterator
from io import RawIOBase
from typing import BinaryIO

from msgspec import Struct

from ci_doctor.system.secrets.private_keys import LONGEST_KEY, without_keys

BLOCK_BYTES = 4 * 1024 * 1024
# A longer line is cut in excerpts: a log may be one line of a gigabyte.
LONGEST_LINE_BYTES = 64 * 1024
# How far the neighbours of a line are looked for: first near it, then beyond a long line.
_WINDOWS_BYTES = (256 * 1024, 16 * 1024 * 1024)
# Two blocks of one line share this much, so that a hit has its surroundings in one of them.
_SHARED_BYTES = 16 * 1024


class Block(Struct, frozen=True):
    """A part of a log: whole lines, or a part of a line that is longer than a block.

    offset: in bytes from the start of the log. A match counts if it begins in
    `content[first:last]`; what is before and after it stands in other blocks too.
    """

    offset: int
    content: bytes
    first: int
    last: int


class TextLine(Struct, frozen=True):
    """One line without its newline, or a part of one.

    number: of the line, from 1. offset: of `content` in the log. content: at most 64 KiB.
    """

    number: int
    offset: int
    content: bytes


class LogText:
    """A log as UTF-8 bytes in a seekable file, without the private keys that it holds.

    A key is many lines. An excerpt may hold some of them, of which nobody knows any more what they are.

    name: what to call it in a report. start and end: offsets of what counts of the file, which may
    grow while it is read. problem: why a part of the log is missing, empty if none is.
    """

    def __init__(
        self, name: str, file: BinaryIO | RawIOBase, end: int, *, start: int = 0, problem: str = ""
    ) -> None:
        self.name = name
        self.problem = problem
        # Called with the bytes that `blocks` has handed out so far.
        self.on_read: Callable[[int], None] | None = None
        self._start = start
        self._end = end
        self._descriptor = file.fileno()
        self._file = file  # kept open
        self._counted_to = start
        self._newlines = 0

    @property
    def size(self) -> int:
        """Bytes of text."""
        return self._end - self._start

    def blocks(self) -> Iterator[Block]:
        """All of the log from the start, in blocks of about 4 MiB."""
        offset = self._start
        rest = b""
        first = 0
        while piece := self._read(offset + len(rest), BLOCK_BYTES):
            content = rest + piece
            end = content.rfind(b"\n") + 1
            last = end
            if end == 0 and len(content) >= BLOCK_BYTES:
                # One line. What stands at the border stands whole in one of the two blocks.
                end = len(content) - _SHARED_BYTES
                last = end + _SHARED_BYTES // 2
            if last > first:
                yield from self._block(offset, content, first, last)
                first = last - end
            rest = content[end:]
            offset += end
        # The end, or the log was cut off while we read it.
        if len(rest) > first:
            yield from self._block(offset, rest, first, len(rest))

    def _block(self, offset: int, content: bytes, first: int, last: int) -> Iterator[Block]:
        block = Block(offset, content, first, last)
        yield block
        self.line_number(block, last)
        if self.on_read is not None:
            self.on_read(offset + last - self._start)

    def line_number(self, block: Block, position: int) -> int:
        """The number of the line at `block.content[position]`; no call goes back in the log."""
        counted = max(0, self._counted_to - block.offset)
        self._newlines += block.content.count(b"\n", counted, position)
        self._counted_to = max(self._counted_to, block.offset + position)
        return self._newlines + 1

    def before(self, line: TextLine, most: int) -> list[TextLine]:
        """At most `most` lines that stand before `line`, in the order of the log."""
        if most <= 0:
            return []
        content = b""
        start = line.offset
        for window in _WINDOWS_BYTES:
            start = max(self._start, line.offset - window)
            content = self._read(start, line.offset - start)
            if b"\n" in content[:-1]:
                break
        end = content.rfind(b"\n")
        if end < 0:
            return []
        pieces = content[:end].split(b"\n")
        # The window begins inside a line.
        if start > self._start:
            start += len(pieces.pop(0)) + 1
        skipped = pieces[: max(0, len(pieces) - most)]
        start += sum(len(piece) + 1 for piece in skipped)
        kept = pieces[len(skipped) :]
        return _lines(kept, line.number - len(kept), start)

    def after(self, line: TextLine, most: int) -> list[TextLine]:
        """`line` itself and at most `most` lines that follow it."""
        from_ = line.offset + len(line.content)
        content = b""
        newline = -1
        for window in _WINDOWS_BYTES:
            content = self._read(from_, window)
            newline = content.find(b"\n")
            if newline >= 0:
                break
        # A newline at the very end begins no line.
        if most <= 0 or newline < 0 or from_ + newline + 1 >= self._end:
            return [line]
        pieces = content[newline + 1 :].split(b"\n", most)
        if not pieces[-1]:
            pieces.pop()
        following = _lines(pieces[:most], line.number + 1, from_ + newline + 1)
        return [line, *following]

    def is_unfinished(self, line: TextLine) -> bool:
        """Whether the log ends with `line`, without a newline."""
        return line.offset + len(line.content) >= self._end

    def tail(self, most: int) -> list[TextLine]:
        """The last `most` lines; `blocks` was read to the end before."""
        start = max(self._start, self._end - _WINDOWS_BYTES[0])
        content = self._read(start, self._end - start)
        unfinished = content.rpartition(b"\n")[2]
        kept = unfinished[-LONGEST_LINE_BYTES:]
        end = TextLine(self._newlines + 1, start + len(content) - len(kept), kept)
        if not unfinished:
            return self.before(end, most)
        return [*self.before(end, most - 1), end]

    def _read(self, offset: int, most: int) -> bytes:
        """The bytes at `offset`, with blanks for what is of a private key.

        What is before and after them tells what a key is: so that is read, too.
        """
        first = max(self._start, offset - LONGEST_KEY)
        wanted = offset - first + max(0, min(most, self._end - offset))
        reach = max(0, min(wanted + LONGEST_KEY, self._end - first))
        content = os.pread(self._descriptor, reach, first)
        return without_keys(content)[offset - first : wanted]


def _lines(pieces: list[bytes], number: int, offset: int) -> list[TextLine]:
    lines = []
    for piece in pieces:
        lines.append(TextLine(number, offset, piece[:LONGEST_LINE_BYTES]))
        number += 1
        offset += len(piece) + 1
    return lines
