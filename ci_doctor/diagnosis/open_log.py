# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which logs are meant by a name, and what each of them holds."""

import codecs
import glob
import io
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from ci_doctor.diagnosis.log_text import (
    HEAD_BYTES,
    DamagedLogError,
    LogForm,
    LogText,
    UnreadableLogError,
    is_archive,
    is_log_name,
    log_form,
    spooled,
    unpacked,
)

if TYPE_CHECKING:
    from ci_doctor.diagnosis.archive import ArchivedLog

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
        from ci_doctor.diagnosis.archive import members_of

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


# Of one folder or pattern; a folder with more is a tree of something else.
_MOST_LOGS = 1000
_MOST_ENTRIES = 100_000


class LogNames(Struct, frozen=True, kw_only=True):
    """names: logs to open, each file once, in a fixed order. unreadable: from a name to a reason.

    limited: folders and patterns with more logs than are read, with a sentence on each.
    """

    names: tuple[str, ...]
    unreadable: dict[str, str]
    limited: dict[str, str]


def expand(names: Sequence[str]) -> LogNames:
    """The logs that `names` mean: paths, `-`, folders with all logs in them, and patterns.

    In a folder and below it the files count whose names look like a log's. Hidden files do not
    count, and links to folders are not followed. A pattern (`*`, `?`, `[…]`, `**`) means all files
    that match it.
    """
    logs = _Names()
    for name in names:
        path = Path(name)
        if name == STANDARD_INPUT:
            logs.add(name)
        elif path.is_dir():
            logs.add_all(name, _logs_in(path), "holds no logs")
        elif path.exists():
            logs.add(name)
        elif glob.has_magic(name):
            logs.add_all(name, _matches(name), "no file matches")
        else:
            logs.unreadable[name] = "No such file or directory"
    return LogNames(names=tuple(logs.names), unreadable=logs.unreadable, limited=logs.limited)


class _Names:
    """What was asked for so far, each file once."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.unreadable: dict[str, str] = {}
        self.limited: dict[str, str] = {}
        self._known: set[tuple[int, int]] = set()

    def add(self, name: str) -> None:
        if name == STANDARD_INPUT:
            key = (-1, -1)
        else:
            try:
                status = os.stat(name)  # noqa: PTH116 an odd name stays as it is
            except OSError as error:
                self.unreadable[name] = error.strerror or str(error)
                return
            key = (status.st_dev, status.st_ino)
        if key not in self._known:
            self._known.add(key)
            self.names.append(name)

    def add_all(self, asked: str, names: Iterator[str], if_none: str) -> None:
        first = list(islice(names, _MOST_LOGS + 1))
        if not first:
            self.unreadable[asked] = if_none
        if len(first) > _MOST_LOGS:
            self.limited[asked] = f"only its first {_MOST_LOGS} logs are read"
        for name in first[:_MOST_LOGS]:
            self.add(name)


def _logs_in(folder: Path) -> Iterator[str]:
    """In the order of their paths; at most _MOST_ENTRIES entries are looked at."""
    entries = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        entries += len(folders) + len(files)
        for name in sorted(files):
            if is_log_name(name):
                yield str(Path(parent, name))
        if entries > _MOST_ENTRIES:
            return


def _matches(pattern: str) -> Iterator[str]:
    """Files, and for a pattern without `**` the logs in the folders that match it."""
    entries = islice(glob.iglob(pattern, recursive=True), _MOST_ENTRIES)  # noqa: PTH207
    for name in sorted(entries):
        if not Path(name).is_dir():
            yield name
        elif "**" not in pattern:
            yield from _logs_in(Path(name))
