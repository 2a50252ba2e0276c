# SPDX-License-Identifier: Apache-2.0
"""One archived start, and the first line of its file. Pure.

The file is gzip of two members. The first member is one line with all that a comparison needs. The
second holds the samples as they were written, and is read only to show an answer. `zcat` prints
both. Each member has gzip's own checksum. The first line holds the size and the checksum of the
second member: a file that was cut short or changed is detected without unpacking it.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.archive.build_origin import BuildOrigin
from ci_doctor.correctness.evidence.samples import SamplePosition
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import AnswerLevel, Arm
from ci_doctor.correctness.tally import PassDigests, outcome
from ci_doctor.correctness.verdict.starts import Answer, ArmStart
from ci_doctor.identity.identity import Identity

# The outcomes of everything follow from the digests.
_KEPT = (AnswerLevel.WORDS, AnswerLevel.TOKENS)
FORMAT = "ci-doctor archived start, 1"
# 1,000 requests in two passes take half a megabyte.
HEADER_LIMIT = 256 << 20
CHUNK = 1 << 20


class NotAnArchiveError(ValueError):
    """A file is no archived start, or no longer whole. The text is the reason."""


class ArchiveHeader(Struct, frozen=True, kw_only=True):
    """The first line of the file.

    `digests` leads from a request and a pass to the digest of the output. `places` leads from a
    digest to offset and length of its sample behind this line. `bytes` and `crc` are of the second
    member. `levels` are outcomes as in ArmStart; an earlier version kept none. `build` names the
    build in words; `origin` identifies it, and is None in files of earlier versions. `devices` is the
    start's CUDA_VISIBLE_DEVICES, if it was drawn.
    """

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
    levels: dict[AnswerLevel, dict[str, Answer]] = {}
    origin: BuildOrigin | None = None
    devices: str = ""


class ArchivedBuild(Struct, frozen=True, kw_only=True):
    """What the first line says of the build alone: to list an archive, no answers are decoded."""

    format: str
    build: str
    origin: BuildOrigin | None = None


class ArchivedStart(Struct, frozen=True, kw_only=True):
    """A baseline start of an earlier build.

    `answers` leads from a request to its outcome over the passes, and `digests` to those of its
    outputs by pass. `places` says where the sample of an output stands in the unpacked file at
    `path`; `build` names the build in words, `origin` identifies it if it is known.
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
    levels: Mapping[AnswerLevel, Mapping[str, Answer]] = {}
    origin: BuildOrigin | None = None
    path: Path
    places: Mapping[str, SamplePosition]
    devices: str = ""

    @property
    def build_id(self) -> str | None:
        """What identifies the build; None if that is unknown."""
        return self.origin.id if self.origin else None

    def result(self) -> StartResult:
        """The same as the start of an experiment, named `a1`."""
        start = ArmStart(
            arm=Arm.BASELINE,
            number=self.number,
            answers=self.answers,
            levels=self.levels,
            prompts=self.prompts,
            empty=self.empty,
            archived=True,
            build=self.build_id,
            devices=self.devices,
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


def header_of(
    identity: Identity, result: StartResult, when: str, build: str, origin: BuildOrigin | None
) -> ArchiveHeader:
    """The header for a start; its places, size and checksum are those of an empty file."""
    start = result.start
    # Copies: a header holds plain dictionaries, which msgspec encodes.
    digests = {request: dict(by_pass) for request, by_pass in result.digests.items()}
    prompts = {request: dict(facts) for request, facts in start.prompts.items()}
    return ArchiveHeader(
        format=FORMAT,
        identity=identity,
        recorded_at=when,
        build=build,
        passes=max(map(len, digests.values())),
        digests=digests,
        prompts=prompts,
        empty=start.empty,
        duration_s=result.duration_s,
        facts=dict(result.facts),
        places={},
        bytes=0,
        crc=0,
        levels={level: dict(start.levels[level]) for level in _KEPT if level in start.levels},
        origin=origin,
        devices=start.devices,
    )


def start_of(header: ArchiveHeader, path: Path, number: int, header_bytes: int) -> ArchivedStart:
    """The start that a header describes. `header_bytes` is the length of its line, unpacked."""
    answers = {}
    digests = PassDigests()
    for request, passes in header.digests.items():
        answers[request] = outcome(passes, header.passes)
        for pass_, digest in passes.items():
            digests.add(request, pass_, digest)
    # Offsets are of the unpacked file, and the header was packed after the samples.
    places = {}
    for digest, (offset, length) in header.places.items():
        places[digest] = SamplePosition(offset=header_bytes + offset, length=length)
    return ArchivedStart(
        number=number,
        answers=answers,
        digests=digests,
        prompts=header.prompts,
        levels=header.levels,
        empty=header.empty,
        recorded_at=header.recorded_at,
        build=header.build,
        origin=header.origin,
        duration_s=header.duration_s,
        facts=header.facts,
        path=path,
        places=places,
        devices=header.devices,
    )
