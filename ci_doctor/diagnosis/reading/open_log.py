# SPDX-License-Identifier: Apache-2.0
"""Reads a log from where it lies, whatever its form, and makes it a seekable UTF-8 file."""

import codecs
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, BinaryIO

from ci_doctor.diagnosis.reading.log_form import HEAD_BYTES, LogForm, is_archive, log_form
from ci_doctor.diagnosis.reading.log_text import LogText
from ci_doctor.diagnosis.reading.spool import spooled
from ci_doctor.diagnosis.reading.unpack import DamagedLogError, unpacked
from ci_doctor.diagnosis.reading.unreadable import UnreadableLogError

if TYPE_CHECKING:
    from ci_doctor.diagnosis.reading.archive import ArchivedLog

STANDARD_INPUT = "-"
_PIECE_BYTES = 1024 * 1024


@contextmanager
def open_log(name: str) -> Iterator[LogText]:
    """The log at the path `name`, or standard input for `-`.

    A log that is packed, in UTF-16, or in a pipe is copied to a file without a name in TMPDIR
    first. If the packed data is damaged, what could be read counts, and `problem` of the log says
    what is missing. Raises OSError if the log cannot be read; this is an UnreadableLogError if it
    is empty or binary, or if the copy does not fit the disk.
    """
    with ExitStack() as opened:
        file, problem = _unpacked_file(_file(name, opened), opened)
        yield _log(_title(name), file, problem, opened)


@contextmanager
def open_logs(name: str) -> Iterator[tuple[list[LogText], dict[str, str]]]:
    """The same for what may be an archive (tar, zip): its members, and why others are not read."""
    with ExitStack() as opened:
        file, problem = _unpacked_file(_file(name, opened), opened)
        head = os.pread(file.fileno(), HEAD_BYTES, 0)
        if not is_archive(head):
            yield [_log(_title(name), file, problem, opened)], {}
            return
        # Which takes longer to import than a log to read.
        from ci_doctor.diagnosis.reading.archive import members_of

        members, skipped = members_of(file, head, opened)
        reason = problem or skipped
        unreadable = {_title(name): reason} if reason else {}
        logs = []
        for member in members:
            title = f"{_title(name)}:{member.name}"
            try:
                logs.append(_log_of_member(title, member, opened))
            except UnreadableLogError as error:
                unreadable[title] = str(error)
        yield logs, unreadable


def _title(name: str) -> str:
    return "standard input" if name == STANDARD_INPUT else name


def _unpacked_file(file: BinaryIO, opened: ExitStack) -> tuple[BinaryIO, str]:
    """What is in `file` as a seekable file, and why a part of it is missing."""
    if not _is_regular(file):
        file = spooled(_pieces(file), opened)
    form = _form(file)
    if not form.packing:
        return file, ""
    stream = _Unpacked(file, form.packing)
    return spooled(stream, opened), stream.problem


def _log(title: str, file: BinaryIO, problem: str, opened: ExitStack) -> LogText:
    form = _form(file)
    _check(form, file, problem)
    if form.encoding != "utf-8":
        file = spooled(_transcoded(file, form), opened)
        form = LogForm()
    start = max(form.mark, _data_start(file))
    size = os.fstat(file.fileno()).st_size
    return LogText(title, file, size, start=start, problem=problem)


def _log_of_member(title: str, member: "ArchivedLog", opened: ExitStack) -> LogText:
    head = os.pread(member.file.fileno(), min(HEAD_BYTES, member.end - member.start), member.start)
    form = log_form(head)
    if not form.packing and not form.is_binary and form.encoding == "utf-8":
        return LogText(title, member.file, member.end, start=member.start + form.mark)
    file, problem = _unpacked_file(spooled(_part(member), opened), opened)
    return _log(title, file, problem, opened)


def _part(member: "ArchivedLog") -> Iterator[bytes]:
    offset = member.start
    while offset < member.end:
        piece = os.pread(member.file.fileno(), min(_PIECE_BYTES, member.end - offset), offset)
        if not piece:
            return
        offset += len(piece)
        yield piece


def _file(name: str, opened: ExitStack) -> BinaryIO:
    if name != STANDARD_INPUT:
        return opened.enter_context(open(name, "rb"))  # noqa: PTH123 an odd name stays as it is
    if sys.stdin is None:
        raise UnreadableLogError("standard input is closed")
    return sys.stdin.buffer


def _is_regular(file: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except io.UnsupportedOperation:
        # Standard input inside another program, which has put its own stream there.
        return False


def _form(file: BinaryIO) -> LogForm:
    return log_form(os.pread(file.fileno(), HEAD_BYTES, _data_start(file)))


def _data_start(file: BinaryIO) -> int:
    """The offset of the first byte that was written; before it may be a part that was freed."""
    try:
        return os.lseek(file.fileno(), 0, os.SEEK_DATA)
    except OSError:  # ENXIO: there is none (lseek(2))
        return 0


def _check(form: LogForm, file: BinaryIO, problem: str) -> None:
    if os.fstat(file.fileno()).st_size <= form.mark:
        raise UnreadableLogError(problem or "empty")
    if form.packing:
        raise UnreadableLogError(f"packed twice: unpack the {form.packing} data first")
    if form.is_binary:
        raise UnreadableLogError("binary data, not a log")


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece


class _Unpacked:
    """The good pieces of a packed log; after them, `problem` says what is missing."""

    def __init__(self, file: BinaryIO, packing: str) -> None:
        self.problem = ""
        self._file = file
        self._packing = packing

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        try:
            yield from unpacked(self._file, self._packing)
        except DamagedLogError as error:
            self.problem = str(error)


def _transcoded(file: BinaryIO, form: LogForm) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(form.encoding)(errors="replace")
    file.seek(form.mark)
    for piece in _pieces(file):
        yield decoder.decode(piece).encode()
    yield decoder.decode(b"", final=True).encode()
