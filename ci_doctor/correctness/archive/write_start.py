# SPDX-License-Identifier: Apache-2.0
"""Acts on files: writes one archived start (the format: archived_start.py)."""

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import replace

from ci_doctor.correctness.archive.archived_start import CHUNK, ArchiveHeader
from ci_doctor.correctness.evidence.samples import Sample, is_valid, read_line
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm

# The fastest: a higher level saves a few per cent of samples, which are mostly unique text.
_LEVEL = 1


def write_start(
    directory: Path, header: ArchiveHeader, lines: Iterable[bytes], result: StartResult
) -> Path:
    """Write an archived start under a temporary name in `directory`, and return that path.

    `lines` are those of a samples file; lines of other starts are ignored. Raises ValueError if a
    sample of this start is missing, and OSError.
    """
    # A file without a name: nothing of it stays behind when this process is killed.
    with tempfile.TemporaryFile(dir=directory) as samples:
        places = _pack(samples, lines, result)
        size, crc = _measure(samples)
        line = msgspec.json.encode(replace(header, places=places, bytes=size, crc=crc)) + b"\n"
        handle, name = tempfile.mkstemp(dir=directory, prefix=".start-", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(gzip.compress(line, _LEVEL, mtime=0))
                shutil.copyfileobj(samples, file, CHUNK)
            # mkstemp makes a file for its owner alone; other users' builds read the archive too.
            Path(name).chmod(0o644)
        except BaseException:  # a signal too
            Path(name).unlink(missing_ok=True)
            raise
    return Path(name)


def _pack(
    file: IO[bytes], lines: Iterable[bytes], result: StartResult
) -> dict[str, tuple[int, int]]:
    """Pack the samples of one start into a gzip member; returns the place of each output in it.

    Leaves the file at its beginning.
    """
    missing: set[tuple[str, int]] = set()
    for request, digests in result.digests.items():
        missing.update((request, number) for number in digests)
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    # No name and no time: the same samples give the same bytes.
    with gzip.GzipFile("", fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0) as packed:
        for line in lines:
            sample = read_line(line)
            key = (sample.id, sample.pass_)
            if key not in missing or not _is_of(sample, result):
                continue
            missing.discard(key)
            places.setdefault(str(sample.digest), (offset, len(line)))
            offset += packed.write(line)
    if missing:
        name = result.start.name
        first, _ = min(missing)
        raise ValueError(f"{len(missing)} samples of {name} are missing, among them {first}")
    file.seek(0)
    return places


def _is_of(sample: Sample, result: StartResult) -> bool:
    """Whether this is the sample behind a digest of the result, and undamaged."""
    if sample.arm != Arm.BASELINE or sample.start != result.start.number:
        return False
    expected = result.digests[sample.id][sample.pass_]
    # The digest in the line may be right and the answer behind it damaged.
    return sample.digest == expected and is_valid(sample)


def _measure(file: IO[bytes]) -> tuple[int, int]:
    """Size in bytes, and CRC-32. Leaves the file at its beginning."""
    size = crc = 0
    while chunk := file.read(CHUNK):
        size += len(chunk)
        crc = zlib.crc32(chunk, crc)
    file.seek(0)
    return size, crc
