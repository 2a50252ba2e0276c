# SPDX-License-Identifier: Apache-2.0
"""Reads outputs back from samples files, one at a time: a thousand large answers cost no memory."""

import gzip
import zlib
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ci_doctor.correctness.evidence.samples import SamplePosition, read_line
from ci_doctor.errors import InfraError


class Outputs(Mapping[str, dict[str, Any]]):
    """Canonical outputs by their digest; about 150 bytes of memory for each, whatever its size.

    A lookup reads and decodes one line. It raises InfraError if that is no longer possible. A file
    whose name ends in `.gz` is read through gzip, and its offsets are those of the content; that
    costs a pass over all that stands before the line.
    """

    def __init__(self) -> None:
        self._rows: dict[bytes, int] = {}
        # Columns of plain numbers, because an object for each output takes four times the memory.
        self._offsets = array("Q")
        self._lengths = array("Q")
        self._files = array("H")
        self._paths: list[Path] = []

    def note(self, digest: str, path: Path, place: SamplePosition) -> None:
        """The sample at `place` of `path` has the output of `digest`. The first place counts."""
        key = bytes.fromhex(digest)
        if key in self._rows:
            return
        if path not in self._paths:
            self._paths.append(path)
        self._rows[key] = len(self._offsets)
        self._offsets.append(place.offset)
        self._lengths.append(place.length)
        # A run has one samples file, and one for each archived start.
        self._files.append(self._paths.index(path))

    def __getitem__(self, digest: str) -> dict[str, Any]:
        try:
            row = self._rows[bytes.fromhex(digest)]
        except (ValueError, TypeError):
            raise KeyError(digest) from None
        path = self._paths[self._files[row]]
        offset = self._offsets[row]
        length = self._lengths[row]
        try:
            sample = read_line(_read(path, offset, length))
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise _unreadable(path, digest, str(error)) from error
        # Somebody may have rewritten the file under us.
        if sample.output is None or sample.digest != digest:
            raise _unreadable(path, digest, "another sample stands there")
        return sample.output

    def __contains__(self, digest: object) -> bool:
        if not isinstance(digest, str):
            return False
        try:
            return bytes.fromhex(digest) in self._rows
        except ValueError:
            return False

    def __iter__(self) -> Iterator[str]:
        return (key.hex() for key in self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _read(path: Path, offset: int, length: int) -> bytes:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _unreadable(path: Path, digest: str, why: str) -> InfraError:
    return InfraError(
        f"an answer can no longer be read from {path} (digest {digest[:12]}): {why}",
        hint="leave the report directory alone while ci-doctor runs, then run it again",
    )
