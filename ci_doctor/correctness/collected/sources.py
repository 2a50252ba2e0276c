# SPDX-License-Identifier: Apache-2.0
"""Reads files of samples: the files of a path, their format, and the bytes at a position."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.collected.formats import (
    AmbiguousError,
    Entry,
    SampleFormat,
    blocks,
    read,
    recognise,
)
from ci_doctor.correctness.evidence.files import SAMPLES
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import InfraError, UsageError

BUFFER = 1 << 20
_SUFFIXES = (".jsonl", ".txt")
_LINES_TO_TRY = 20


class NoEvidenceError(ValueError):
    """The files prove nothing; the text says why. The verdict is `void`."""


class Source(Struct, frozen=True, kw_only=True):
    """One file of one side."""

    arm: Arm
    path: Path
    form: SampleFormat


class SourcePosition(Struct, frozen=True, kw_only=True):
    """Where a record is: `offset` and `length` in bytes, `line` from 1."""

    source: Source
    offset: int
    length: int
    line: int


def find(path: str) -> list[Path]:
    """The files that a path names. Raises UsageError if there are none."""
    if path == "-":
        raise UsageError(
            "`-` is not supported: a file is read twice if answers differ", hint="name a file"
        )
    target = Path(path)
    if target.is_dir():
        return _in_directory(target)
    if not target.exists():
        hint = "name two files, or two directories, of samples"
        raise UsageError(f"no such file: {path}", hint=hint)
    if not target.is_file():
        hint = "a file is read twice if answers differ: name a copy"
        raise UsageError(f"not a regular file: {path}", hint=hint)
    return [target]


def _in_directory(directory: Path) -> list[Path]:
    """The samples of a report directory of ours, or each file of samples in any other directory."""
    own = directory / SAMPLES
    # Beside our samples there are other .jsonl files: events, starts.
    if own.is_file():
        return [own]
    # Sorted: the order of the files numbers the starts, and the file system has none.
    candidates = sorted(directory.iterdir())
    files = [path for path in candidates if path.suffix in _SUFFIXES and path.is_file()]
    if not files:
        raise UsageError(
            f"no *.jsonl or *.txt in {directory}",
            hint="name a directory with one file for each start",
        )
    return files


def sources(arm: Arm, path: str, form: SampleFormat | None) -> list[Source]:
    """The files of one side; `form` is the format of all of them, None if each is to be recognised.

    Raises UsageError, NoEvidenceError.
    """
    return [Source(arm=arm, path=file, form=form or _form(file)) for file in find(path)]


def _form(path: Path) -> SampleFormat:
    """The format, by the first line that shows it: one broken line must not hide the rest."""
    some = islice((line for line in lines(path) if line.strip()), _LINES_TO_TRY)
    forms = [recognise(line) for line in some]
    for form in forms:
        if form is not None:
            return form
    what = "holds no samples in any known form" if forms else "is empty"
    raise NoEvidenceError(f"{path} {what}")


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file. Raises InfraError if it cannot be read."""
    try:
        with path.open("rb", buffering=BUFFER) as file:
            yield from file
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InfraError | UsageError:
    """The error to raise for a file that the system refuses to read."""
    if isinstance(error, PermissionError):
        return UsageError(f"cannot read {path}: {error.strerror}", hint="make it readable")
    return InfraError(f"cannot read {path}: {error.strerror}", hint="look at the disk")


def records(source: Source) -> Iterator[tuple[str | None, bytes, int, int]]:
    """Every record of a file: its id in LMCache's format, else None; its bytes, offset and number.

    Raises NoEvidenceError.
    """
    if source.form is SampleFormat.LMCACHE:
        yield from _block_records(source)
        return
    offset = 0
    for number, line in enumerate(lines(source.path), start=1):
        if not line.isspace():
            yield None, line, offset, number
        offset += len(line)


def _block_records(source: Source) -> Iterator[tuple[str | None, bytes, int, int]]:
    numbered = enumerate(blocks(lines(source.path)), start=1)
    try:
        for number, (identity, offset, length) in numbered:
            place = SourcePosition(source=source, offset=offset, length=length, line=number)
            yield identity, content(place), offset, number
    except AmbiguousError as error:
        raise NoEvidenceError(
            f"the blocks of {source.path} cannot be told apart: {error}"
        ) from error


def content(position: SourcePosition) -> bytes:
    """The bytes at a position. Raises InfraError."""
    path = position.source.path
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            data = os.pread(descriptor, position.length, position.offset)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) < position.length:
        raise InfraError(
            f"{path} became shorter while it was read", hint="compare files that nobody writes to"
        )
    return data


def entry(position: SourcePosition) -> Entry:
    """The record at a position, read the slow and complete way."""
    return read(position.source.form, content(position))


def check(baseline: Sequence[Source], candidate: Sequence[Source]) -> None:
    """Raises UsageError if the two sides cannot be compared: other formats, or the same files."""
    forms = {source.form for source in (*baseline, *candidate)}
    if len(forms) > 1 and not all(form.is_api for form in forms):
        words = " and ".join(sorted(form.words for form in forms))
        raise UsageError(
            f"{words} do not compare: they do not hold the same of an answer",
            hint="give --format NAME",
        )
    for one, other in product(baseline, candidate):
        # Our own samples may hold both arms in one file. The system is asked, and not the names: a
        # link is the same file, too.
        if one.form is not SampleFormat.OURS and one.path.samefile(other.path):
            raise UsageError(
                f"both sides name {one.path}", hint="a file is always the same as itself"
            )
