# SPDX-License-Identifier: Apache-2.0
"""Reads logs of any size: as blocks for a scan, as lines around a place; unpacks those that are packed."""

import os
from collections.abc import Callable, Iterator, Sequence
from io import RawIOBase
from typing import BinaryIO

from msgspec import Struct

from ci_doctor.diagnosis.lines import clean_line
from ci_doctor.model.cause import LogLine
from ci_doctor.model.facts.diagnose import LogLines
from ci_doctor.system.secrets.private_keys import (
    LONGEST_KEY,
    first_words,
    without_key_lines,
    without_keys,
)

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


_BEFORE = 6
_AFTER = 9
_CONTEXT = 120


def excerpt_around(log: LogText, line: TextLine) -> LogLines:
    """`line` with at most 6 lines before it and 9 after it."""
    before = log.before(line, _BEFORE + _CONTEXT)
    lines = [*before, *log.after(line, _AFTER + _CONTEXT)]
    # Before it is cut: the lines around it tell what the last line of a key is.
    contents = without_key_lines(b"\n".join(each.content for each in lines)).split(b"\n")
    n_before = min(len(before), _BEFORE)
    shown = contents[len(before) - n_before : len(before) + _AFTER + 1]
    cleaned = [clean_line(each) for each in shown]
    # What each line of a process begins with would take the room of what it says.
    writer = cleaned[n_before].writer
    messages = [each.message if each.writer == writer else each.text for each in cleaned]
    messages[n_before] = messages[n_before] or cleaned[n_before].text
    return LogLines(
        file=log.name,
        first_line=line.number - n_before,
        lines=tuple(each.text for each in cleaned),
        marked=n_before,
        messages=tuple(messages),
    )


_LAST_LINES = 15
_FRAME_LINES = 4  # the innermost two frames: each a place and the code there
_LINES_AFTER = 3  # an exception's message may run on
_LONGEST_LINE = 500


class Excerpt(Struct, frozen=True, kw_only=True):
    """Neighbouring lines of a text without the empty ones.

    `line` and `end_line` are 1-based and inclusive; None if there are no lines, or if nobody has
    counted. `root` is the index in `lines` of the one nearest to the cause, None if there are none.
    """

    lines: tuple[str, ...] = ()
    line: int | None = None
    end_line: int | None = None
    root: int | None = None


def lines_around(
    text: str, place: LogLine | None, *, ends_traceback: bool = False, fatal: str | None = None
) -> Excerpt:
    """The lines of `text` that say why it ends, and the root line among them.

    place: where a diagnosis looks first; ends_traceback: it is the exception of one. fatal: a text whose last line is the root instead. An
    exception has its innermost frames before it and the rest of its message after it. Other root
    lines stand among the last 15 lines that are not empty, or in the middle of 15 others.
    """
    cleaned = [clean_line(line.encode()).text for line in text.split("\n")]
    lines = [first_words(each, _LONGEST_LINE) for each in cleaned]
    number = None if place is None else place.line
    root = _root(lines, number, fatal)
    if root is None:
        return Excerpt()
    kept = [index for index, line in enumerate(lines) if line]
    middle = kept.index(root)
    if ends_traceback and number is not None and root == number - 1:
        kept = [each for each in kept if -_FRAME_LINES <= each - root <= _LINES_AFTER]
    else:
        first = max(0, middle - _LAST_LINES // 2)
        if middle >= len(kept) - _LAST_LINES:
            first = max(0, len(kept) - _LAST_LINES)
        kept = kept[first : first + _LAST_LINES]
    return Excerpt(
        lines=tuple(lines[index] for index in kept),
        line=kept[0] + 1,
        end_line=kept[-1] + 1,
        root=kept.index(root),
    )


def marked(excerpt: Sequence[str], root: int | None, most: int) -> list[str]:
    """At most `most` lines of `excerpt`, `> ` before the one at `root`, two spaces before others."""
    # The last lines, unless the root stands before them: then it is in the middle.
    first = max(0, len(excerpt) - most)
    if root is not None:
        centred = max(0, root - most // 2)
        first = min(first, centred)
    end = min(len(excerpt), first + most)
    shown = []
    for index in range(first, end):
        mark = "> " if index == root else "  "
        shown.append(mark + excerpt[index])
    return shown


def _root(lines: Sequence[str], number: int | None, fatal: str | None) -> int | None:
    """The index of the root line; None if all lines are empty."""
    last = range(len(lines) - 1, -1, -1)
    fatals = [index for index in last if fatal is not None and fatal in lines[index]]
    if not fatals and number is not None and lines[number - 1]:
        return number - 1
    return next(iter(fatals), next((index for index in last if lines[index]), None))
