# SPDX-License-Identifier: Apache-2.0
"""Reads the file system: which logs are meant by a name, and what each of them holds."""

import codecs
import errno
import glob
import io
import math
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, cast

from msgspec import Struct

from ci_doctor.diagnosis.log_text import LogText
from ci_doctor.system.files.access import near_path, open_file_or_pipe
from ci_doctor.version import install_extra

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
    # UTF-16 shows itself by the zero byte of nearly every character of a log.
    even = head[0::2].count(0)
    odd = head[1::2].count(0)
    half = len(head) // 2
    if odd > 0.7 * half and even < 0.1 * half:
        return LogForm(encoding="utf-16-le")
    if even > 0.7 * half and odd < 0.1 * half:
        return LogForm(encoding="utf-16-be")
    return LogForm(is_binary=_is_binary(head))


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


# A piece of packed data may become a thousand times as large: this bounds the memory.
_PACKED_BYTES = 4 * 1024


class DamagedLogError(Exception):
    """The packed data ends early or makes no sense; what came before it is good."""


def unpacked(file: BinaryIO, packing: str) -> Iterator[bytes]:
    """What is packed in `file`; `packing` as in LogForm. One file may hold several streams.

    Raises DamagedLogError after the last good piece, and UnreadableLogError if a library is
    missing.
    """
    make, damage = _unpacking(packing)
    unpacker = make()
    data = file.read(_PACKED_BYTES)
    while data:
        try:
            piece = unpacker.decompress(data)
        except damage as error:
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
        unpacker = make()
    raise DamagedLogError(f"the {packing} data ends early")


def _unpacking(packing: str) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
    """What makes an unpacker of one stream, and what that raises for damaged data."""
    if packing == "gzip":
        import zlib

        return partial(zlib.decompressobj, wbits=16 + zlib.MAX_WBITS), (zlib.error,)
    if packing == "xz":
        import lzma

        return lzma.LZMADecompressor, (lzma.LZMAError,)
    if packing == "bzip2":
        import bz2

        return bz2.BZ2Decompressor, (OSError, ValueError)
    try:
        import zstandard
    except ImportError as error:
        raise UnreadableLogError(
            f"packed by zstd: `{install_extra('fast-logs')}`, or unpack it with `zstd -d`"
        ) from error
    return zstandard.ZstdDecompressor().decompressobj, (zstandard.ZstdError,)


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def spooled(pieces: Iterable[bytes], opened: ExitStack) -> BinaryIO:
    """All `pieces` in a file that is gone when `opened` is closed.

    Raises UnreadableLogError if they do not fit the disk.
    """
    unbuffered = opened.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115
    file = cast("BinaryIO", unbuffered)
    for piece in pieces:
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
    return file


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
        title = "standard input" if name == STANDARD_INPUT else name
        yield _log(title, file, problem, opened)


@contextmanager
def open_logs(name: str) -> Iterator[tuple[list[LogText], dict[str, str]]]:
    """The same for what may be an archive (tar, zip): its members, and why others are not read."""
    with ExitStack() as opened:
        title = "standard input" if name == STANDARD_INPUT else name
        file, problem = _unpacked_file(_file(name, opened), opened)
        head = os.pread(file.fileno(), HEAD_BYTES, 0)
        # A tar or a zip may hold several logs.
        if not (head.startswith(ZIP) or head[_TAR_OFFSET : _TAR_OFFSET + len(_TAR)] == _TAR):
            yield [_log(title, file, problem, opened)], {}
            return
        members, skipped = members_of(file, head, opened)
        reason = problem or skipped
        unreadable = {title: reason} if reason else {}
        logs = []
        for member in members:
            try:
                logs.append(_log_of_member(f"{title}:{member.name}", member, opened))
            except UnreadableLogError as error:
                unreadable[f"{title}:{member.name}"] = str(error)
        yield logs, unreadable


def _unpacked_file(file: BinaryIO, opened: ExitStack) -> tuple[BinaryIO, str]:
    """What is in `file` as a seekable file, and why a part of it is missing."""
    try:
        is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except io.UnsupportedOperation:
        # Standard input inside another program, which has put its own stream there.
        is_regular = False
    if not is_regular:
        file = spooled(_pieces(file), opened)
    form = _form(file)
    if not form.packing:
        return file, ""
    stream = _Unpacked(file, form.packing)
    return spooled(stream, opened), stream.problem


def _log(title: str, file: BinaryIO, problem: str, opened: ExitStack) -> LogText:
    form = _form(file)
    if os.fstat(file.fileno()).st_size <= form.mark:
        raise UnreadableLogError(problem or "empty")
    if form.packing:
        raise UnreadableLogError(f"packed twice: unpack the {form.packing} data first")
    if form.is_binary:
        raise UnreadableLogError("binary data, not a log")
    if form.encoding != "utf-8":
        file = spooled(_transcoded(file, form), opened)
        form = LogForm()
    start = max(form.mark, _data_start(file))
    size = os.fstat(file.fileno()).st_size
    return LogText(title, file, size, start=start, problem=problem)


class ArchivedLog(Struct, frozen=True, kw_only=True):
    """A log in an archive: what `file` holds from `start` to `end`."""

    name: str
    file: BinaryIO
    start: int
    end: int


def _log_of_member(title: str, member: ArchivedLog, opened: ExitStack) -> LogText:
    head = os.pread(member.file.fileno(), min(HEAD_BYTES, member.end - member.start), member.start)
    form = log_form(head)
    if not form.packing and not form.is_binary and form.encoding == "utf-8":
        return LogText(title, member.file, member.end, start=member.start + form.mark)
    member.file.seek(member.start)
    part = _pieces(member.file, member.end - member.start)
    file, problem = _unpacked_file(spooled(part, opened), opened)
    return _log(title, file, problem, opened)


def _file(name: str, opened: ExitStack) -> BinaryIO:
    if name != STANDARD_INPUT:
        return opened.enter_context(open_file_or_pipe(name))
    if sys.stdin is None:
        raise UnreadableLogError("standard input is closed")
    return sys.stdin.buffer


def _form(file: BinaryIO) -> LogForm:
    return log_form(os.pread(file.fileno(), HEAD_BYTES, _data_start(file)))


def _data_start(file: BinaryIO) -> int:
    """The offset of the first byte that was written; before it may be a part that was freed."""
    try:
        return os.lseek(file.fileno(), 0, os.SEEK_DATA)
    except OSError:  # ENXIO: there is none (lseek(2))
        return 0


def _pieces(file: IO[bytes], most: float = math.inf) -> Iterator[bytes]:
    """At most `most` bytes."""
    while most > 0 and (piece := file.read(int(min(_PIECE_BYTES, most)))):
        yield piece
        most -= len(piece)


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

    limited: folders and patterns with more logs than are read, with a sentence on each. skipped: from
    what lies in a folder, or matches a pattern, and is no file to the reason.
    """

    names: tuple[str, ...]
    unreadable: dict[str, str]
    limited: dict[str, str]
    skipped: dict[str, str]


def expand(names: Sequence[str]) -> LogNames:
    """The logs that `names` mean: paths, `-`, folders with all logs in them, and patterns.

    In a folder and below it the files count whose names look like a log's. Hidden files do not
    count, and links to folders are not followed. A pattern (`*`, `?`, `[…]`, `**`) means all files
    that match it. Pipes, sockets and devices count only if they are named.
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
            near = near_path(path)
            logs.unreadable[name] = "No such file or directory" + (f"; {near}" if near else "")
    return LogNames(
        names=tuple(logs.names),
        unreadable=logs.unreadable,
        limited=logs.limited,
        skipped=logs.skipped,
    )


class _Names:
    """What was asked for so far, each file once."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.unreadable: dict[str, str] = {}
        self.limited: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
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
            # Nobody meant a pipe at which to wait. A link that leads nowhere is named as such.
            if os.path.exists(name) and not os.path.isfile(name):  # noqa: PTH110, PTH113
                self.skipped[name] = "not a regular file"
            else:
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


_MOST_MEMBERS: Final = 1000
# An archive may hold far more than the disk does: what its members have together, unpacked.
_MOST_BYTES: Final = 4 << 30
_ENCRYPTED: Final = 0x1  # of the flags of a zip's member


def members_of(file: BinaryIO, head: bytes, opened: ExitStack) -> tuple[list[ArchivedLog], str]:
    """The logs in the archive `file`, and why others are not read; it is empty if all are.

    Only regular files count, at most 1,000 and 4 GiB of them: those whose names look like a log's,
    or all if none does. Nothing is written but files without a name. Raises UnreadableLogError if
    there is none.
    """
    # Which take longer to import than a log to read.
    import tarfile
    import zipfile

    file.seek(0)
    damage = (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, OverflowError)
    try:
        members, skipped = _of_zip(file, opened) if head.startswith(ZIP) else _of_tar(file)
    except damage as error:
        raise UnreadableLogError(f"a damaged archive: {error}") from error
    if not members:
        raise UnreadableLogError("an archive without logs")
    return members, skipped


def _of_tar(file: BinaryIO) -> tuple[list[ArchivedLog], str]:
    import tarfile

    chosen = _Chosen()
    with tarfile.open(fileobj=file, mode="r:", errorlevel=0) as archive:
        try:
            for entry in archive:
                is_plain = entry.isreg() and not entry.issparse()
                chosen.add(entry.name, entry.size, entry, is_plain=is_plain)
        # A damaged end leaves what came before it.
        except (tarfile.TarError, OSError, ValueError) as error:
            chosen.problem = f"damaged: {error}"
    members = [
        ArchivedLog(
            name=name, file=file, start=entry.offset_data, end=entry.offset_data + entry.size
        )
        for name, entry in chosen.logs()
    ]
    return members, chosen.skipped()


def _of_zip(file: BinaryIO, opened: ExitStack) -> tuple[list[ArchivedLog], str]:
    import zipfile

    chosen = _Chosen()
    archive = opened.enter_context(zipfile.ZipFile(file))
    for entry in archive.infolist():
        kind = entry.external_attr >> 28  # of Unix: 8 is a regular file, 0 none at all
        is_plain = not entry.is_dir() and kind in {0, 8} and not entry.flag_bits & _ENCRYPTED
        chosen.add(entry.filename, entry.file_size, entry, is_plain=is_plain)
    members = []
    left = _MOST_BYTES
    for name, entry in chosen.logs():
        try:
            with archive.open(entry) as stream:
                # The size that an entry claims may be a lie.
                copy = spooled(_pieces(stream, min(left, entry.file_size)), opened)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
            chosen.problem = f"{name}: {error}"
            continue
        size = copy.seek(0, 2)
        left -= size
        members.append(ArchivedLog(name=name, file=copy, start=0, end=size))
    return members, chosen.skipped()


class _Chosen:
    """The regular files of an archive by their names, and how many are left out."""

    def __init__(self) -> None:
        self.problem = ""
        self._entries: dict[str, Any] = {}
        self._bytes = 0
        self._left_out = 0

    def add(self, name: str, size: int, entry: object, *, is_plain: bool) -> None:
        if not is_plain or size == 0:
            return
        is_hostile = size < 0 or "\0" in name
        is_much = len(self._entries) >= _MOST_MEMBERS or self._bytes + size > _MOST_BYTES
        if is_hostile or is_much:
            self._left_out += 1
            return
        self._bytes += size
        # A later member of the same name replaces the earlier one, as where it is unpacked.
        self._entries[name] = entry

    def logs(self) -> list[tuple[str, Any]]:
        named = [(name, entry) for name, entry in self._entries.items() if is_log_name(name)]
        return sorted(named or self._entries.items(), key=lambda each: each[0])

    def skipped(self) -> str:
        if not self.problem and self._left_out:
            return f"{self._left_out} of its members are not read"
        return self.problem
