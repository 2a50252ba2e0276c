# SPDX-License-Identifier: Apache-2.0
"""Reads outputs back from samples files, one at a time: a thousand large answers cost no memory."""

import gzip
import shutil
import tempfile
import weakref
import zlib
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ci_doctor.correctness.evidence.samples import SamplePosition, read_line
from ci_doctor.errors import InfraError

_CHUNK = 1 << 20


class Outputs(Mapping[str, dict[str, Any]]):
    """Canonical outputs by their digest; about 100 bytes of memory for each, whatever its size.

    A lookup reads and decodes one line. It raises InfraError if that is no longer possible. The
    offsets in a file whose name ends in `.gz` are those of its content. The first lookup there
    unpacks it into a file without a name, in the directory `scratch` (None: the system's).
    """

    def __init__(self, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self._unpacked: dict[Path, IO[bytes]] = {}
        # Not as bytes: these are the very objects that the starts hold.
        self._rows: dict[str, int] = {}
        # Columns of plain numbers, because an object for each output takes four times the memory.
        self._offsets = array("Q")
        self._lengths = array("Q")
        self._files = array("H")
        self._paths: list[Path] = []

    def note(self, digest: str, path: Path, place: SamplePosition) -> None:
        """The sample at `place` of `path` has the output of `digest`. The first place counts."""
        if digest in self._rows:
            return
        if path not in self._paths:
            self._paths.append(path)
        self._rows[digest] = len(self._offsets)
        self._offsets.append(place.offset)
        self._lengths.append(place.length)
        # A run has one samples file, and one for each archived start.
        self._files.append(self._paths.index(path))

    def __getitem__(self, digest: str) -> dict[str, Any]:
        row = self._rows[digest]
        path = self._paths[self._files[row]]
        offset = self._offsets[row]
        length = self._lengths[row]
        try:
            sample = read_line(self._read(path, offset, length))
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise _unreadable(path, digest, str(error)) from error
        # Somebody may have rewritten the file under us.
        if sample.output is None or sample.digest != digest:
            raise _unreadable(path, digest, "another sample stands there")
        return sample.output

    def _read(self, path: Path, offset: int, length: int) -> bytes:
        if path.suffix != ".gz":
            with path.open("rb") as file:
                return _piece(file, offset, length)
        # gzip has no index: each lookup would unpack all that stands before the line.
        if path not in self._unpacked:
            self._unpacked[path] = unpacked = _unpack(path, self._scratch)
            weakref.finalize(self, unpacked.close)
        return _piece(self._unpacked[path], offset, length)

    def __contains__(self, digest: object) -> bool:
        return digest in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _piece(file: IO[bytes], offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)


def _unpack(path: Path, scratch: Path | None) -> IO[bytes]:
    # Without a name: nothing of it stays behind when this process is killed.
    unpacked = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 - it lives as long as `Outputs`
    try:
        with gzip.open(path) as packed:
            shutil.copyfileobj(packed, unpacked, _CHUNK)
    except BaseException:  # a signal too
        unpacked.close()
        raise
    return unpacked


def _unreadable(path: Path, digest: str, why: str) -> InfraError:
    return InfraError(
        f"an answer can no longer be read from {path} (digest {digest[:12]}): {why}",
        hint="leave the report directory alone while ci-doctor runs, then run it again",
    )
