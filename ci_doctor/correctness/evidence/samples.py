# SPDX-License-Identifier: Apache-2.0
"""Samples: one request's answer in one pass of one start, a JSON line each, written as it arrives."""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.load.canonical import digest
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.system.secrets.patterns import PLACEHOLDER
from ci_doctor.system.secrets.redaction import Redactor

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """`pass_` (`pass` in JSON) and `start` count from 1; `status` is HTTP's; exactly one of `error` and `output` is set.

    `digest` is the SHA-256 of the canonical `output`, `said` that of its words without log-probabilities; `meta` holds what was left out of the comparison;
    `asked` what the server says it was asked.
    """

    arm: str
    start: int
    pass_: int = msgspec.field(name="pass")
    id: str
    status: int | None = None
    error: str | None = None
    output: dict[str, Any] | None = None
    digest: str | None = None
    said: str | None = None
    asked: dict[str, Any] = {}
    empty: bool = False
    meta: dict[str, Any] = {}


class Place(Struct, frozen=True, kw_only=True):
    """Where a line stands in its file: bytes, its newline included."""

    offset: int
    length: int


class SampleWriter:
    """Writes samples, each line whole and handed to the system at once, without the values of secrets.

    Only the values: an answer may well hold a key `token`, and what stands beside it is the evidence. With `append` the
    samples go behind those that `resume` has left in the file, else into a new one.
    """

    def __init__(self, path: Path, redactor: Redactor, *, append: bool = False) -> None:
        self.path = path
        self._redactor = redactor
        # Else "wb": a sample of an earlier attempt must never be read as one of this.
        self._mode = "ab" if append else "wb"
        self._file: FileIO | None = None
        self._end = 0

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = FileIO(self.path, self._mode)
            self._end = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise UsageError(
                f"cannot write {self.path}: {error.strerror}",
                hint="choose another directory with --report-dir",
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file:
            with contextlib.suppress(
                OSError
            ):  # some file systems tell of a full disk only now, and `write` has too
                self._file.close()

    def write(self, sample: Sample) -> Place:
        """One line, and where it stands. Raises InfraError where the disk does not take it; then none of it is left."""
        assert self._file is not None  # noqa: S101 - used outside `with` is a programming error
        line = json.dumps(msgspec.to_builtins(sample))  # ASCII: a model may say a lone surrogate
        if self._redactor.without_values(line) != line:
            # String by string, because a number may hold the same digits.
            line = _STRING.sub(lambda match: self._redactor.without_values(match[0]), line)
        content = line.encode("ascii") + b"\n"
        try:
            append_whole(self._file, content, self._end)
        except OSError as error:
            raise InfraError(
                f"cannot write {self.path}: {error.strerror}", hint="free some disk space"
            ) from error
        place = Place(offset=self._end, length=len(content))
        self._end += len(content)
        return place


def append_whole(file: FileIO, content: bytes, end: int) -> None:
    """Append `content` to a file of `end` bytes; where that fails (OSError) the file is cut to what it held before."""
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[file.write(rest) or 0 :]
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(end)
        raise


def read_line(line: bytes) -> Sample:
    """The sample of one whole line. Raises ValueError where it holds none."""
    if not line.endswith(b"\n"):
        raise ValueError("the line is torn")
    try:
        # Not msgspec's own decoder: a model may say a lone surrogate.
        return msgspec.convert(json.loads(line), Sample)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error)) from error


def is_sound(sample: Sample) -> bool:
    """Whether its digest is that of its output, or may have been before a secret was taken out. Pure.

    An error is sound as it is; an answer without a digest is none.
    """
    if sample.output is None:
        return sample.error is not None
    try:
        return digest(sample.output) == sample.digest or (
            sample.digest is not None and PLACEHOLDER in str(sample.output)
        )
    except NotAnAnswerError:
        return False


def read_places(path: Path) -> Iterator[tuple[Place, bytes]]:
    """Every line of a samples file, with its newline (but for a torn last one), and where it stands. Raises OSError."""
    offset = 0
    with path.open("rb") as file:
        for line in file:
            yield Place(offset=offset, length=len(line)), line
            offset += len(line)
