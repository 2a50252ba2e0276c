# SPDX-License-Identifier: Apache-2.0
"""Acts on files: one archived start, as a gzip file of two members.

The first member is one line that says all that a comparison needs; the second holds the samples as they were written, and
is read only to show an answer. `zcat` shows both. Each member has gzip's own checksum, and the first names the size and
the checksum of the second, so that a file that was cut short or changed is found out without unpacking it.
"""

import gzip
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.evidence.former_keys import ARCHIVE_HEADER, current
from ci_doctor.correctness.evidence.samples import SamplePosition, is_valid, read_line
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.tally import outcome
from ci_doctor.correctness.verdict.compare import Answer, ArmStart
from ci_doctor.identity.identity import Identity

FORMAT = "ci-doctor archived start, 1"
_GZIP = 31
_LEVEL = 1
_CHUNK = 1 << 20
_DIGEST = re.compile("[0-9a-f]{64}")
# 1,000 requests in two passes take half a megabyte.
_HEAD_LIMIT = 256 << 20


class NotAnArchiveError(ValueError):
    """A file is no archived start, or no longer whole; the text says why."""


class ArchiveHeader(Struct, frozen=True, kw_only=True):
    """The first line. `places` has offset and length of each output's sample behind this line; `bytes` and `crc` are of the second member."""

    format: str
    identity: Identity
    recorded_at: str
    build: str
    passes: int
    digests: dict[str, dict[int, str]]
    prompts: dict[str, dict[str, str]]
    empty: int
    duration_s: float
    facts: dict[str, str]
    places: dict[str, tuple[int, int]]
    bytes: int
    crc: int
    words: dict[str, Answer] = {}


class ArchivedStart(Struct, frozen=True, kw_only=True):
    """A baseline start of an earlier build. `answers` leads from a request to its outcome over the passes.

    `digests` are those of its outputs by request and pass, and `places` where in the unpacked file at `path` the sample of
    an output stands; `build` says in words who made it.
    """

    number: int
    answers: Mapping[str, Answer]
    digests: Mapping[str, Mapping[int, str]]
    prompts: Mapping[str, Mapping[str, str]]
    empty: int
    recorded_at: str
    build: str
    duration_s: float
    facts: Mapping[str, str]
    words: Mapping[str, Answer] = {}
    path: Path
    places: Mapping[str, SamplePosition]

    def result(self) -> StartResult:
        """The same as the start of an experiment, named `a1`."""
        start = ArmStart(
            arm=Arm.BASELINE,
            number=self.number,
            answers=self.answers,
            words=self.words,
            prompts=self.prompts,
            empty=self.empty,
            archived=True,
        )
        return StartResult(
            start=start,
            failure=None,
            duration_s=self.duration_s,
            logs=(),
            digests=self.digests,
            errors={},
            facts=self.facts,
        )


def write_start(
    directory: Path, head: ArchiveHeader, lines: Iterable[bytes], result: StartResult
) -> Path:
    """Write an archived start under a temporary name in `directory`, and give that back: its place is the caller's.

    `lines` are those of a samples file; those of other starts are passed over. Raises ValueError where a sample of this
    start is missing, and OSError.
    """
    # Without a name, so that nothing of it stays behind when this process is killed.
    with tempfile.TemporaryFile(dir=directory) as samples:
        places = _pack(samples, lines, result)
        size, crc = _measure(samples)
        line = msgspec.json.encode(replace(head, places=places, bytes=size, crc=crc)) + b"\n"
        handle, name = tempfile.mkstemp(dir=directory, prefix=".start-", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(gzip.compress(line, _LEVEL, mtime=0))
                shutil.copyfileobj(samples, file, _CHUNK)
            Path(name).chmod(0o644)
        except BaseException:  # also a signal
            Path(name).unlink(missing_ok=True)
            raise
    return Path(name)


def _pack(
    file: IO[bytes], lines: Iterable[bytes], result: StartResult
) -> dict[str, tuple[int, int]]:
    """The samples of one start into a gzip member; where each output stands in it. The file is left at its beginning."""
    missing = {(request, each) for request, digests in result.digests.items() for each in digests}
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    with gzip.GzipFile(
        filename="", fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0
    ) as packed:
        for line in lines:
            sample = read_line(line)
            key = (sample.id, sample.pass_)
            if (
                sample.arm != Arm.BASELINE
                or sample.start != result.start.number
                or key not in missing
            ):
                continue
            if (
                sample.digest is None
                or sample.digest != result.digests[sample.id][sample.pass_]
                or not is_valid(sample)
            ):
                continue
            missing.discard(key)
            places.setdefault(sample.digest, (offset, len(line)))
            offset += packed.write(line)
    if missing:
        raise ValueError(
            f"{len(missing)} samples of {result.start.name} are missing, among them {min(missing)[0]}"
        )
    file.seek(0)
    return places


def _measure(file: IO[bytes]) -> tuple[int, int]:
    size = crc = 0
    while chunk := file.read(_CHUNK):
        size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    file.seek(0)
    return size, crc


def read_start(path: Path, number: int) -> tuple[Identity, ArchivedStart]:
    """An archived start and the identity that it was made under. Raises NotOursError, and OSError."""
    with path.open("rb") as file:
        line, rest = _first_member(file)
        try:
            head = msgspec.convert(
                current(msgspec.json.decode(line), ARCHIVE_HEADER), ArchiveHeader, str_keys=True
            )
        except (msgspec.DecodeError, RecursionError) as error:
            raise NotAnArchiveError(f"its first line is none of ours: {error}") from error
        if head.format != FORMAT:
            raise NotAnArchiveError(f"its format is {head.format!r}, not {FORMAT!r}")
        size, crc = len(rest), zlib.crc32(rest)
        while chunk := file.read(_CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    if (size, crc) != (head.bytes, head.crc):
        raise NotAnArchiveError(
            "its samples are cut short" if size < head.bytes else "its samples were changed"
        )
    if not head.digests or any(
        set(told) != set(range(1, head.passes + 1)) for told in head.digests.values()
    ):
        raise NotAnArchiveError("it does not hold an answer to every request in every pass")
    named = {
        digest for told in head.digests.values() for digest in told.values()
    } | head.places.keys()
    if not all(_DIGEST.fullmatch(digest) for digest in named):
        raise NotAnArchiveError("what names its answers is no digest")
    return Identity.of(head.identity.facts, head.identity.unknown, head.identity.noted), _start(
        head, path, number, len(line)
    )


def _start(head: ArchiveHeader, path: Path, number: int, shift: int) -> ArchivedStart:
    return ArchivedStart(
        number=number,
        answers={
            request: outcome(digests, head.passes) for request, digests in head.digests.items()
        },
        digests=head.digests,
        prompts=head.prompts,
        words=head.words,
        empty=head.empty,
        recorded_at=head.recorded_at,
        build=head.build,
        duration_s=head.duration_s,
        facts=head.facts,
        path=path,
        places={
            key: SamplePosition(offset=shift + offset, length=length)
            for key, (offset, length) in head.places.items()
        },
    )


def _first_member(file: IO[bytes]) -> tuple[bytes, bytes]:
    """The content of the first gzip member, and what was read behind it."""
    unpack = zlib.decompressobj(_GZIP)
    parts: list[bytes] = []
    total = 0
    while not unpack.eof:
        chunk = unpack.unconsumed_tail or file.read(_CHUNK)
        if not chunk:
            raise NotAnArchiveError("it ends in the middle" if total else "it is empty")
        try:
            parts.append(unpack.decompress(chunk, _HEAD_LIMIT - total + 1))
        except zlib.error as error:
            raise NotAnArchiveError(f"it is no whole gzip file: {error}") from error
        total += len(parts[-1])
        if total > _HEAD_LIMIT:
            raise NotAnArchiveError("its first line is larger than any of ours")
    return b"".join(parts), unpack.unused_data
