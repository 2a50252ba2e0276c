# SPDX-License-Identifier: Apache-2.0
"""Samples: one request's answer in one pass of one start, a JSON line each, written as it arrives."""

import contextlib
import json
import re
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.system.redaction import Redactor

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """`pass_` (`pass` in JSON) and `start` count from 1; `status` is HTTP's; exactly one of `error` and `output` is set.

    `digest` is the SHA-256 of the canonical `output`; `meta` holds what was left out of the comparison;
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
    asked: dict[str, Any] = {}
    empty: bool = False
    meta: dict[str, Any] = {}


class SampleWriter:
    """Appends samples to a new file, each line whole and handed to the system at once, without the values of secrets.

    Only the values: an answer may well hold a key `token`, and what stands beside it is the evidence.
    """

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self.path = path
        self._redactor = redactor
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # "wb": a sample of an earlier attempt must never be read as one of this.
            self._file = self.path.open("wb")
        except OSError as error:
            raise UsageError(
                f"cannot write {self.path}: {error.strerror}", hint="choose another directory with --report-dir"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            with contextlib.suppress(OSError):  # on a full disk closing fails too, and `write` has told of it
                self._file.close()

    def write(self, sample: Sample) -> None:
        """One line. Raises InfraError where the disk does not take it."""
        assert self._file is not None  # noqa: S101 - used outside `with` is a programming error
        line = json.dumps(msgspec.to_builtins(sample))  # ASCII: a model may say a lone surrogate
        if self._redactor.without_values(line) != line:
            # String by string, because a number may hold the same digits.
            line = _STRING.sub(lambda match: self._redactor.without_values(match[0]), line)
        try:
            self._file.write(line.encode("ascii") + b"\n")
            self._file.flush()
        except OSError as error:
            raise InfraError(f"cannot write {self.path}: {error.strerror}", hint="free some disk space") from error
