# SPDX-License-Identifier: Apache-2.0
"""Reads logs of any size: as blocks for a scan, as lines around a place; unpacks those that are packed."""

import codecs
import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from io import RawIOBase
from typing import BinaryIO, Final, Protocol, cast

from msgspec import Struct

from ci_doctor.model.distribution import install_extra
from ci_doctor.system.secrets.private_keys import LONGEST_KEY, without_keys

# `server.log`, `server.log.1`, `build-2026-11-22.log.gz`, `0_build.txt`, `stderr`, `consoleText`.
_LOG_NAME: Final = re.compile(
    r"(?:.*\.(?:log|out|err|txt|stdout|stderr)(?:[.-]\d[\d.-]*)?"
    r"|log|output|stdout|stderr|console\w*)"
    r"(?:\.(?:gz|xz|bz2|zst))?",
    re.IGNORECASE,
)


def is_log_name(path: str) -> bool:
    """Whether the last part of `path` looks like the name of a log; hidden files do not."""
    name = path.rpartition("/")[2]
    return not name.startswith(".") and _LOG_NAME.fullmatch(name) is not None


class UnreadableLogError(OSError):
    """Its text is the reason, for a person, without the name of the log."""


# Enough to see the form; a log is read from its start again afterwards.
HEAD_BYTES = 64 * 1024
# The magic numbers of gzip (RFC 1952), Zstandard (RFC 8878), xz and bzip2.
_PACKED = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
}
# The first member of a zip; the magic number of a tar (POSIX.1-2001, ustar), and where it stands.
ZIP = b"PK\x03\x04"
_TAR = b"ustar"
_TAR_OFFSET = 257
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Controls that no terminal program prints: not tab, newline, escape and their like.
_NOT_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")


class LogForm(Struct, frozen=True, kw_only=True):
    """packing: "" for none. encoding: as Python names it. mark: bytes of the byte order mark.

    is_binary: it is no log at all.
    """

    packing: str = ""
    encoding: str = "utf-8"
    mark: int = 0
    is_binary: bool = False


def log_form(head: bytes) -> LogForm:
    """The form of what begins with `head`, at most HEAD_BYTES of it."""
    for magic, packing in _PACKED.items():
        if head.startswith(magic):
            return LogForm(packing=packing)
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return LogForm(encoding=encoding, mark=len(mark))
    encoding = _encoding_without_mark(head)
    return LogForm(encoding=encoding, is_binary=encoding == "utf-8" and _is_binary(head))


def _encoding_without_mark(head: bytes) -> str:
    """UTF-16 shows itself by the zero byte of nearly every character of a log."""
    even = head[0::2].count(0)
    odd = head[1::2].count(0)
    half = len(head) // 2
    if odd > 0.7 * half and even < 0.1 * half:
        return "utf-16-le"
    if even > 0.7 * half and odd < 0.1 * half:
        return "utf-16-be"
    return "utf-8"


def _is_binary(head: bytes) -> bool:
    """Whether more than a tenth are controls. NULs alone are no sign: a truncated log has them."""
    written = head.replace(b"\0", b"")
    if not written:
        return bool(head)
    controls = len(_NOT_TEXT.findall(written))
    if controls > len(written) / 10:
        return True
    # Packed data: controls are 8 % of it, and nearly nothing is valid UTF-8.
    invalid = written.decode(errors="replace").count("\ufffd")
    return controls > len(written) / 50 and invalid > len(written) / 5


def is_archive(head: bytes) -> bool:
    """Whether a file that begins with `head` is a tar or a zip, which may hold several logs."""
    return head.startswith(ZIP) or head[_TAR_OFFSET : _TAR_OFFSET + len(_TAR)] == _TAR


# A piece of packed data may become a thousand times as large: this bounds the memory.
_PACKED_BYTES = 4 * 1024


class DamagedLogError(Exception):
    """The packed data ends early or makes no sense; what came before it is good."""


class _Unpacker(Protocol):
    """What all of these libraries offer for one stream of data."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def unpacked(file: BinaryIO, packing: str) -> Iterator[bytes]:
    """What is packed in `file`; `packing` as in LogForm. One file may hold several streams.

    Raises DamagedLogError after the last good piece, and UnreadableLogError if a library is
    missing.
    """
    unpacker = _unpacker(packing)
    errors = _errors(packing)
    data = file.read(_PACKED_BYTES)
    while data:
        try:
            piece = unpacker.decompress(data)
        except errors as error:
            raise DamagedLogError(f"damaged {packing} data: {error}") from error
        if piece:
            yield piece
        if not unpacker.eof:
            data = file.read(_PACKED_BYTES)
            continue
        data = unpacker.unused_data + file.read(_PACKED_BYTES)
        # What follows is another stream, or padding.
        if log_form(data).packing != packing:
            return
        unpacker = _unpacker(packing)
    raise DamagedLogError(f"the {packing} data ends early")


def _unpacker(packing: str) -> _Unpacker:
    if packing == "gzip":
        import zlib

        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    if packing == "xz":
        import lzma

        return lzma.LZMADecompressor()
    if packing == "bzip2":
        import bz2

        return bz2.BZ2Decompressor()
    return _zstd_unpacker()


def _zstd_unpacker() -> _Unpacker:
    try:
        import zstandard
    except ImportError as error:
        raise UnreadableLogError(
            f"packed by zstd: `{install_extra('fast-logs')}`, or unpack it with `zstd -d`"
        ) from error
    return zstandard.ZstdDecompressor().decompressobj()


def _errors(packing: str) -> tuple[type[Exception], ...]:
    """What the library of `packing` raises for damaged data."""
    if packing == "gzip":
        import zlib

        return (zlib.error,)
    if packing == "xz":
        import lzma

        return (lzma.LZMAError,)
    if packing == "bzip2":
        return (OSError, ValueError)
    import zstandard

    return (zstandard.ZstdError,)


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def spooled(pieces: Iterable[bytes], opened: ExitStack) -> BinaryIO:
    """All `pieces` in a file that is gone when `opened` is closed.

    Raises UnreadableLogError if they do not fit the disk.
    """
    unbuffered = opened.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115
    file = cast("BinaryIO", unbuffered)
    for piece in pieces:
        _write(file, piece)
    return file


def _write(file: BinaryIO, piece: bytes) -> None:
    rest = memoryview(piece)
    try:
        # Without a buffer, a nearly full disk takes a part.
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise UnreadableLogError(
            f"no space left in {tempfile.gettempdir()} for a copy of it: "
            "set TMPDIR to a folder with more room"
        ) from error


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
