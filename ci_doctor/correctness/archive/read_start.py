# SPDX-License-Identifier: Apache-2.0
"""Reads one archived start, and refuses a file that is damaged (the format: archived_start.py)."""

import re
import zlib
from pathlib import Path
from typing import Protocol

import msgspec

from ci_doctor.correctness.archive.archived_start import (
    CHUNK,
    FORMAT,
    HEADER_LIMIT,
    ArchivedBuild,
    ArchivedStart,
    ArchiveHeader,
    NotAnArchiveError,
    start_of,
)
from ci_doctor.identity.identity import Identity

# zlib's number for "gzip framing, the largest window".
_GZIP = 31
_DIGEST = re.compile("[0-9a-f]{64}")


class ByteSource(Protocol):
    """A file, or whatever else is read from its beginning to its end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; empty at the end."""


def read_start(path: Path, number: int) -> tuple[Identity, ArchivedStart]:
    """An archived start, and the identity under which it was made.

    Raises NotAnArchiveError, and OSError.
    """
    with path.open("rb") as file:
        line, rest = _first_member(file)
        header = _header(line)
        # What was read behind the first member already belongs to the second.
        size = len(rest)
        crc = zlib.crc32(rest)
        while chunk := file.read(CHUNK):
            size += len(chunk)
            crc = zlib.crc32(chunk, crc)
    # The checksum is of the packed bytes: nothing of the second member is unpacked here.
    if size < header.bytes:
        raise NotAnArchiveError("its samples are cut short")
    if size != header.bytes or crc != header.crc:
        raise NotAnArchiveError("its samples were changed")
    _check_digests(header)
    # `of` sorts and cleans: a file may hold anything.
    recorded = header.identity
    identity = Identity.of(recorded.facts, recorded.unknown, recorded.noted)
    return identity, start_of(header, path, number, len(line))


def read_build(file: ByteSource) -> ArchivedBuild:
    """The build that made a start, from its first line; whether the rest is whole stays unknown.

    Raises NotAnArchiveError, and what `file` raises.
    """
    line, _ = _first_member(file)
    try:
        made = msgspec.json.decode(line, type=ArchivedBuild)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotAnArchiveError(f"its first line is none of ours: {error}") from error
    _check_format(made.format)
    return made


def _header(line: bytes) -> ArchiveHeader:
    try:
        header = msgspec.json.decode(line, type=ArchiveHeader)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotAnArchiveError(f"its first line is none of ours: {error}") from error
    _check_format(header.format)
    return header


def _check_format(form: str) -> None:
    if form != FORMAT:
        raise NotAnArchiveError(f"its format is {form!r}, not {FORMAT!r}")


def _check_digests(header: ArchiveHeader) -> None:
    """Every request must have a digest in every pass. Raises NotAnArchiveError."""
    passes = set(range(1, header.passes + 1))
    digests = set(header.places)
    is_complete = bool(header.digests)
    for by_pass in header.digests.values():
        is_complete = is_complete and by_pass.keys() == passes
        digests.update(by_pass.values())
    if not is_complete:
        raise NotAnArchiveError("it does not hold an answer to every request in every pass")
    # They become keys and parts of messages: nothing else may come from a file of others.
    if not all(map(_DIGEST.fullmatch, digests)):
        raise NotAnArchiveError("what names its answers is no digest")


def _first_member(file: ByteSource) -> tuple[bytes, bytes]:
    """The content of the first gzip member, and the bytes that were read behind it."""
    unpack = zlib.decompressobj(_GZIP)
    parts: list[bytes] = []
    total = 0
    while not unpack.eof:
        chunk = unpack.unconsumed_tail or file.read(CHUNK)
        if not chunk:
            raise NotAnArchiveError("it ends in the middle" if total else "it is empty")
        try:
            # One byte more than allowed: enough to notice, whatever a bomb would unpack to.
            parts.append(unpack.decompress(chunk, HEADER_LIMIT - total + 1))
        except zlib.error as error:
            raise NotAnArchiveError(f"it is no whole gzip file: {error}") from error
        total += len(parts[-1])
        if total > HEADER_LIMIT:
            raise NotAnArchiveError("its first line is larger than any of ours")
    return b"".join(parts), unpack.unused_data
