# SPDX-License-Identifier: Apache-2.0
"""Pure. The content of the file of one archived start (the format: archived_start.py)."""

import gzip
import io
import zlib
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from ci_doctor.correctness.archive.archived_start import ArchiveHeader
from ci_doctor.correctness.evidence.samples import Sample, is_valid, read_line
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm

# The fastest: a higher level saves a few per cent of samples, which are mostly unique text.
_LEVEL = 1


def archived_bytes(header: ArchiveHeader, lines: Iterable[bytes], result: StartResult) -> bytes:
    """The content of the file of an archived start.

    `lines` are those of a samples file; lines of other starts are ignored. Raises ValueError if a
    sample of this start is missing.
    """
    samples, places = _pack(lines, result)
    size = len(samples)
    complete = replace(header, places=places, bytes=size, crc=zlib.crc32(samples))
    line = msgspec.json.encode(complete) + b"\n"
    return gzip.compress(line, _LEVEL, mtime=0) + samples


def _pack(lines: Iterable[bytes], result: StartResult) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """The samples of one start as a gzip member, and the place of each output in its content."""
    missing: set[tuple[str, int]] = set()
    for request, digests in result.digests.items():
        missing.update((request, number) for number in digests)
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    member = io.BytesIO()
    # No name and no time: the same samples give the same bytes.
    with gzip.GzipFile("", fileobj=member, mode="wb", compresslevel=_LEVEL, mtime=0) as packed:
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
    return member.getvalue(), places


def _is_of(sample: Sample, result: StartResult) -> bool:
    """Whether this is the sample behind a digest of the result, and undamaged."""
    if sample.arm != Arm.BASELINE or sample.start != result.start.number:
        return False
    expected = result.digests[sample.id][sample.pass_]
    # The digest in the line may be right and the answer behind it damaged.
    return sample.digest == expected and is_valid(sample)
