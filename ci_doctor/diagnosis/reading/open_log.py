# SPDX-License-Identifier: Apache-2.0
"""Reads a log from where it lies, whatever its form, and makes it a seekable UTF-8 file."""

import codecs
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from ci_doctor.diagnosis.reading.log_form import HEAD_BYTES, LogForm, log_form
from ci_doctor.diagnosis.reading.log_text import LogText
from ci_doctor.diagnosis.reading.spool import spooled
from ci_doctor.diagnosis.reading.unpack import DamagedLogError, unpacked
from ci_doctor.diagnosis.reading.unreadable import UnreadableLogError

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
        file = _file(name, opened)
        problem = ""
        if not _is_regular(file):
            file = spooled(_pieces(file), opened)
        form = _form(file)
        if form.packing:
            stream = _Unpacked(file, form.packing)
            file = spooled(stream, opened)
            problem = stream.problem
            form = _form(file)
        _check(form, file, problem)
        if form.encoding != "utf-8":
            file = spooled(_transcoded(file, form), opened)
            form = LogForm()
        title = "standard input" if name == STANDARD_INPUT else name
        start = max(form.mark, _data_start(file))
        size = os.fstat(file.fileno()).st_size
        yield LogText(title, file, size, start=start, problem=problem)


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
