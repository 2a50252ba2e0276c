# SPDX-License-Identifier: Apache-2.0
"""Reads files of collected samples: which ones a path stands for, in what form, and the bytes at a place."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.collected.blocks import AmbiguousError, blocks
from ci_doctor.correctness.collected.entries import Entry, read
from ci_doctor.correctness.collected.formats import Format, recognise
from ci_doctor.correctness.evidence.files import SAMPLES
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import InfraError, UsageError

BUFFER = 1 << 20
_SUFFIXES = (".jsonl", ".txt")
_LINES_TO_TRY = 20


class NoEvidenceError(ValueError):
    """The files prove nothing: the text says why. It ends in `void`."""


class Source(Struct, frozen=True, kw_only=True):
    """One file of one side."""

    arm: Arm
    path: Path
    form: Format


class Place(Struct, frozen=True, kw_only=True):
    """Where a record stands: `offset` and `length` in bytes, `line` from 1."""

    source: Source
    offset: int
    length: int
    line: int


def find(path: str) -> list[Path]:
    """The files that a path stands for. Raises UsageError where there are none."""
    if path == "-":
        raise UsageError(
            "`-` is not supported: a file is read twice where answers differ", hint="name a file"
        )
    found = Path(path)
    if found.is_dir():
        return _in_directory(found)
    if not found.exists():
        raise UsageError(
            f"no such file: {path}", hint="name two files, or two directories, of samples"
        )
    if not found.is_file():
        raise UsageError(
            f"not a regular file: {path}",
            hint="a file is read twice where answers differ: name a copy",
        )
    return [found]


def _in_directory(directory: Path) -> list[Path]:
    """A report directory of ours stands for its samples; any other for each file of samples in it."""
    own = directory / SAMPLES
    if own.is_file():
        return [own]
    files = sorted(
        each for each in directory.iterdir() if each.suffix in _SUFFIXES and each.is_file()
    )
    if not files:
        raise UsageError(
            f"no *.jsonl or *.txt in {directory}",
            hint="name a directory with one file for each start",
        )
    return files


def sources(arm: Arm, path: str, form: Format | None) -> list[Source]:
    """The files of one side; `form` is what a person says of all of them. Raises UsageError, NoEvidenceError."""
    return [Source(arm=arm, path=file, form=form or _form(file)) for file in find(path)]


def _form(path: Path) -> Format:
    """By the first line that tells, so that one broken line does not hide the rest."""
    tried = 0
    for line in lines(path):
        if not line.strip():
            continue
        if found := recognise(line):
            return found
        tried += 1
        if tried == _LINES_TO_TRY:
            break
    raise NoEvidenceError(
        f"{path} is empty" if not tried else f"{path} holds no samples in any known form"
    )


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file. Raises InfraError where it cannot be read."""
    try:
        with path.open("rb", buffering=BUFFER) as file:
            yield from file
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InfraError | UsageError:
    """What to raise for a file that the system does not hand over."""
    if isinstance(error, PermissionError):
        return UsageError(f"cannot read {path}: {error.strerror}", hint="make it readable")
    return InfraError(f"cannot read {path}: {error.strerror}", hint="look at the disk")


def places(source: Source) -> Iterator[tuple[str | None, Place, bytes]]:
    """Every record of a file, with its bytes, and its id in LMCache's form. Raises NoEvidenceError."""
    if source.form is Format.LMCACHE:
        yield from _block_places(source)
        return
    offset = 0
    for number, line in enumerate(lines(source.path), start=1):
        if not line.isspace():
            yield None, Place(source=source, offset=offset, length=len(line), line=number), line
        offset += len(line)


def _block_places(source: Source) -> Iterator[tuple[str | None, Place, bytes]]:
    try:
        for number, (identity, offset, length) in enumerate(blocks(lines(source.path)), start=1):
            place = Place(source=source, offset=offset, length=length, line=number)
            yield identity, place, content(place)
    except AmbiguousError as error:
        raise NoEvidenceError(
            f"the blocks of {source.path} cannot be told apart: {error}"
        ) from error


def content(place: Place) -> bytes:
    """The bytes at a place. Raises InfraError."""
    path = place.source.path
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            found = os.pread(descriptor, place.length, place.offset)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(found) < place.length:
        raise InfraError(
            f"{path} became shorter while it was read", hint="compare files that nobody writes to"
        )
    return found


def entry(place: Place) -> Entry:
    """The record at a place, read the slow and sure way."""
    return read(place.source.form, content(place))


def check(baseline: Sequence[Source], candidate: Sequence[Source]) -> None:
    """Raises UsageError where the two sides cannot be compared: other forms, or the same files.

    Only our own samples may hold both arms in one file.
    """
    forms = {source.form for source in (*baseline, *candidate)}
    if len(forms) > 1 and not all(form.is_api for form in forms):
        told = " and ".join(sorted(form.words for form in forms))
        raise UsageError(
            f"{told} do not compare: they do not hold the same of an answer",
            hint="give --format NAME",
        )
    for one in baseline:
        for other in candidate:
            if one.form is not Format.OURS and one.path.samefile(other.path):
                raise UsageError(
                    f"both sides name {one.path}", hint="a file is always the same as itself"
                )
