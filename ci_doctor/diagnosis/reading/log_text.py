# SPDX-License-Identifier: Apache-2.0
"""Reads one log, of which any part can be read again."""

import os
from collections.abc import Iterator
from io import RawIOBase
from typing import BinaryIO

from msgspec import Struct

BLOCK_BYTES = 4 * 1024 * 1024
# A longer line is read in pieces: a log may be one line of a gigabyte.
LONGEST_LINE_BYTES = 64 * 1024
_WINDOW_BYTES = 256 * 1024


class Block(Struct, frozen=True):
    """Whole lines of a log (a line longer than a block stands in several).

    offset: in bytes from the start of the log. line: the 1-based number of its first line.
    """

    offset: int
    line: int
    content: bytes


class TextLine(Struct, frozen=True):
    """One line without its newline: 1-based number, offset in bytes, at most 64 KiB of it."""

    number: int
    offset: int
    content: bytes


class LogText:
    """A log as UTF-8 bytes in a seekable file.

    name: what to call it in a report. The file may grow while it is read; `size` is how much of it
    counts.
    """

    def __init__(self, name: str, file: BinaryIO | RawIOBase, size: int) -> None:
        self.name = name
        self.size = size
        self._descriptor = file.fileno()
        self._file = file  # kept open
        self._next_line = 1

    def blocks(self) -> Iterator[Block]:
        """All of the log from the start, in blocks of about 4 MiB."""
        offset = 0
        line = 1
        rest = b""
        while offset + len(rest) < self.size:
            wanted = min(BLOCK_BYTES, self.size - offset - len(rest))
            content = rest + os.pread(self._descriptor, wanted, offset + len(rest))
            # The log was cut off while we read it.
            if len(content) == len(rest):
                break
            end = content.rfind(b"\n") + 1
            is_last = offset + len(content) >= self.size
            if is_last or (end == 0 and len(content) >= BLOCK_BYTES):
                end = len(content)
            block = Block(offset, line, content[:end])
            if end:
                yield block
            rest = content[end:]
            offset += end
            line += block.content.count(b"\n")
        self._next_line = line
        if rest:
            yield Block(offset, line, rest)

    def before(self, line: TextLine, most: int) -> list[TextLine]:
        """At most `most` lines that stand before `line`, in the order of the log."""
        start = max(0, line.offset - _WINDOW_BYTES)
        content = os.pread(self._descriptor, line.offset - start, start)
        pieces = content.split(b"\n")
        # What follows the last newline is the beginning of `line` itself: nothing.
        pieces = pieces[:-1]
        if start > 0:
            pieces = pieces[1:]
        return self._numbered_back(pieces[-most:] if most else [], line)

    def _numbered_back(self, pieces: list[bytes], line: TextLine) -> list[TextLine]:
        number = line.number - len(pieces)
        offset = line.offset - sum(len(piece) + 1 for piece in pieces)
        lines = []
        for piece in pieces:
            lines.append(TextLine(number, offset, piece[:LONGEST_LINE_BYTES]))
            number += 1
            offset += len(piece) + 1
        return lines

    def after(self, line: TextLine, most: int) -> list[TextLine]:
        """`line` itself and at most `most` lines that follow it."""
        content = os.pread(
            self._descriptor, min(_WINDOW_BYTES, self.size - line.offset), line.offset
        )
        lines = []
        number = line.number
        offset = line.offset
        for piece in content.split(b"\n")[: most + 1]:
            lines.append(TextLine(number, offset, piece[:LONGEST_LINE_BYTES]))
            number += 1
            offset += len(piece) + 1
        # A newline at the very end begins no line.
        if lines and lines[-1].offset >= self.size:
            lines.pop()
        return lines

    def tail(self, most: int) -> list[TextLine]:
        """The last `most` lines; `blocks` was read to the end before."""
        start = max(0, self.size - _WINDOW_BYTES)
        content = os.pread(self._descriptor, self.size - start, start)
        unfinished = content.rpartition(b"\n")[2]
        end = TextLine(self._next_line, self.size - len(unfinished), unfinished)
        if not unfinished:
            return self.before(end, most)
        return [*self.before(end, most - 1), end]
