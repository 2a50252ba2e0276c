# SPDX-License-Identifier: Apache-2.0
"""Reads a tar or a zip with several logs: each member is a log of its own."""

import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, BinaryIO, Final, Generic, TypeVar

from msgspec import Struct

from ci_doctor.diagnosis.log_text import ZIP, UnreadableLogError, is_log_name, spooled

_MOST_MEMBERS: Final = 1000
# An archive may hold far more than the disk does: what its members have together, unpacked.
_MOST_BYTES: Final = 4 << 30
_MEMBER_PIECE_BYTES: Final = 1 << 20
_ENCRYPTED: Final = 0x1  # of the flags of a zip's member
Entry = TypeVar("Entry")


class ArchivedLog(Struct, frozen=True, kw_only=True):
    """A log in an archive: what `file` holds from `start` to `end`."""

    name: str
    file: BinaryIO
    start: int
    end: int


def members_of(file: BinaryIO, head: bytes, opened: ExitStack) -> tuple[list[ArchivedLog], str]:
    """The logs in the archive `file`, and why others are not read; it is empty if all are.

    Only regular files count, at most 1,000 and 4 GiB of them: those whose names look like a log's,
    or all if none does. Nothing is written but files without a name. Raises UnreadableLogError if
    there is none.
    """
    file.seek(0)
    try:
        if head.startswith(ZIP):
            members, skipped = _of_zip(file, opened)
        else:
            members, skipped = _of_tar(file)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, OverflowError) as error:
        raise UnreadableLogError(f"a damaged archive: {error}") from error
    if not members:
        raise UnreadableLogError("an archive without logs")
    return members, skipped


def _of_tar(file: BinaryIO) -> tuple[list[ArchivedLog], str]:
    chosen: _Chosen[tarfile.TarInfo] = _Chosen()
    # A damaged end leaves what came before it.
    with tarfile.open(fileobj=file, mode="r:", errorlevel=0) as archive:
        for entry in _until_damage(archive, chosen):
            is_plain = entry.isreg() and not entry.issparse()
            chosen.add(entry.name, entry.size, entry, is_plain=is_plain)
    members = [
        ArchivedLog(
            name=name, file=file, start=entry.offset_data, end=entry.offset_data + entry.size
        )
        for name, entry in chosen.logs()
    ]
    return members, chosen.skipped()


def _until_damage(
    archive: tarfile.TarFile, chosen: "_Chosen[tarfile.TarInfo]"
) -> Iterator[tarfile.TarInfo]:
    try:
        yield from archive
    except (tarfile.TarError, OSError, ValueError) as error:
        chosen.problem = f"damaged: {error}"


def _of_zip(file: BinaryIO, opened: ExitStack) -> tuple[list[ArchivedLog], str]:
    chosen: _Chosen[zipfile.ZipInfo] = _Chosen()
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
                copy = spooled(_pieces_of_member(stream, min(left, entry.file_size)), opened)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
            chosen.problem = f"{name}: {error}"
            continue
        size = copy.seek(0, 2)
        left -= size
        members.append(ArchivedLog(name=name, file=copy, start=0, end=size))
    return members, chosen.skipped()


def _pieces_of_member(stream: IO[bytes], most: int) -> Iterator[bytes]:
    """At most `most` bytes: the size that an entry claims may be a lie."""
    while most > 0:
        piece = stream.read(min(_MEMBER_PIECE_BYTES, most))
        if not piece:
            return
        most -= len(piece)
        yield piece


class _Chosen(Generic[Entry]):
    """The regular files of an archive by their names, and how many are left out."""

    def __init__(self) -> None:
        self.problem = ""
        self._entries: dict[str, Entry] = {}
        self._bytes = 0
        self._left_out = 0

    def add(self, name: str, size: int, entry: Entry, *, is_plain: bool) -> None:
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

    def logs(self) -> list[tuple[str, Entry]]:
        named = [(name, entry) for name, entry in self._entries.items() if is_log_name(name)]
        return sorted(named or self._entries.items(), key=lambda each: each[0])

    def skipped(self) -> str:
        if self.problem:
            return self.problem
        return f"{self._left_out} of its members are not read" if self._left_out else ""
