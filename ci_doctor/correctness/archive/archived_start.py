# SPDX-License-Identifier: Apache-2.0
"""Reads and makes the file of one archived start, and refuses one that is damaged.

The file is gzip of one line with all that a comparison needs, and of the samples as they were written,
which are read only to show an answer. By gzip's own checksum a file is detected that was cut short or
changed.
"""

import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.correctness.evidence.run_identity import read_run
from ci_doctor.correctness.evidence.samples import SamplePosition, is_valid, read_line
from ci_doctor.correctness.results import StartResult, decoded, encoded, with_answers
from ci_doctor.correctness.settings import AnswerLevel, Arm, ExperimentPlan
from ci_doctor.correctness.tally import outcome
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity
from ci_doctor.load.looks import AnswerLooks
from ci_doctor.model.facts.correctness import SharedUse
from ci_doctor.model.service import StopResult

# --- which build made the starts of a run, so that independent builds can be counted ---

# BUILDKITE_COMMIT may also be `HEAD`, or a branch, of a build that was started by hand.
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def build_of(environ: Mapping[str, str]) -> str:
    """The build in words: `build 42 of main at 0123456789ab, https://…`.

    Outside Buildkite it is `a local run`.
    """
    job = JobEnvironment.from_environ(environ)
    if job is None:
        return "a local run"
    text = f"build {job.build_number}" if job.build_number is not None else "a build"
    if job.branch:
        text += f" of {job.branch}"
    if job.commit:
        text += f" at {job.commit[:12]}"
    if job.build_url:
        text += f", {job.build_url}"
    return text


def origin_of_run(plan: ExperimentPlan, commit: str | None) -> tuple[str | None, str | None]:
    """What identifies the build that makes the starts of `plan`, and its commit; None is unknown.

    That is common to the starts of one build and to no others: Buildkite's id of the build, or host
    and time elsewhere. Jobs of one build, their retries and resumed runs are one build. `commit` is the one that is
    checked out; the job's own goes before it, if it has all its digits.
    """
    job = JobEnvironment.from_environ(plan.environment)
    if job is not None:
        is_whole = job.commit is not None and _COMMIT.fullmatch(job.commit) is not None
        return job.build_id or job.job_id, job.commit if is_whole else commit
    try:
        return f"{os.uname().nodename} {read_run(plan.directory).started_at}", commit
    except UsageError:
        # A start of an unknown build is better than a run that ends with an error after its verdict.
        return None, commit


# --- the file of one archived start ---

# The outcomes of everything follow from the digests.
_KEPT = (AnswerLevel.WORDS, AnswerLevel.TOKENS)
FORMAT = "ci-doctor archived start, 4"
# 1,000 requests in two passes take half a megabyte.
_LINE_LIMIT = 256 << 20
_CHUNK = 1 << 20
# The fastest: a higher level saves a few per cent of samples, which are mostly unique text.
_LEVEL = 1
_DIGEST = re.compile("[0-9a-f]{64}")


class NotAnArchiveError(ValueError):
    """A file is no archived start, or no longer whole. The text is the reason."""


class ArchivedStart(Struct, frozen=True, kw_only=True):
    """A baseline start of an earlier build: the first line of its file.

    `result` answered every request in so many `passes`. `places` leads from a digest to offset and
    length of its sample behind this line, and `bytes` counts what stands there. `build` names the
    build in words, `build_id` identifies it if it is known.
    """

    format: str = FORMAT
    identity: Identity
    recorded_at: str
    build: str
    build_id: str | None = None
    commit: str | None = None
    passes: int
    result: StartResult
    places: dict[str, tuple[int, int]] = {}
    bytes: int = 0

    def numbered(self, number: int) -> "ArchivedStart":
        """The same as the start of an experiment, named `a1`."""
        start = replace(self.result.start, number=number, archived=True, build=self.build_id)
        return replace(self, result=replace(self.result, start=start))


class ArchivedFile(Struct, frozen=True):
    """An archived start, with the place of each of its answers in the unpacked file at `path`."""

    start: ArchivedStart
    path: Path
    places: dict[str, SamplePosition]


def unfit(result: StartResult) -> str | None:
    """Why a start is no baseline for others; None if it is one. Pure."""
    start = result.start
    requests = len(start.answers)
    if start.arm is not Arm.BASELINE or start.archived:
        return f"{start.name} is no baseline start of this run"
    if start.failed or start.outside or not result.counts or result.failure is not None:
        return f"{start.name} did not come to its end"
    # Of no requests at all a start answers all, and proves nothing.
    is_incomplete = start.answered < max(1, requests)
    if start.proof_missing or result.errors or is_incomplete:
        return f"{start.name} did not answer everything"
    if start.empty == requests:
        return f"{start.name} gave empty answers only"
    return None


def for_others(record: StartResult, result: StartResult) -> StartResult:
    """What the builds to come need of a `result`: its `record` without secrets, and its answers.

    What it left on this machine, and what it read of other starts, says nothing of another run.
    """
    whole = with_answers(record, result)
    levels = {level: whole.start.levels[level] for level in _KEPT if level in whole.start.levels}
    start = replace(whole.start, answers={}, levels=levels, looks=AnswerLooks(), control=None)
    return replace(
        whole,
        start=start,
        services=(),
        stopped=StopResult(duration_s=0.0),
        proof=(),
        shared=SharedUse(),
    )


def archived_bytes(start: ArchivedStart, lines: Iterable[bytes]) -> bytes:
    """The content of the file of an archived start.

    `lines` are those of a samples file; lines of other starts are ignored. Raises ValueError if a
    sample of this start is missing.
    """
    result = start.result
    missing = {
        (request, number) for request, digests in result.digests.items() for number in digests
    }
    places: dict[str, tuple[int, int]] = {}
    offset = 0
    samples: list[bytes] = []
    for line in lines:
        sample = read_line(line)
        key = (sample.id, sample.pass_)
        is_own = sample.arm == Arm.BASELINE and sample.start == result.start.number
        if key not in missing or not is_own:
            continue
        # The digest in the line may be right and the answer behind it damaged.
        if sample.digest == result.digests[sample.id][sample.pass_] and is_valid(sample):
            missing.discard(key)
            places.setdefault(str(sample.digest), (offset, len(line)))
            samples.append(line)
            offset += len(line)
    if missing:
        first, _ = min(missing)
        raise ValueError(
            f"{len(missing)} samples of {result.start.name} are missing, among them {first}"
        )
    complete = replace(start, places=places, bytes=offset)
    head = json.dumps(encoded(complete), separators=(",", ":")).encode("ascii") + b"\n"
    # No time: the same samples give the same bytes.
    return gzip.compress(b"".join([head, *samples]), _LEVEL, mtime=0)


def read_start(path: Path) -> ArchivedFile:
    """The archived start in a file. Raises NotAnArchiveError, and OSError."""
    try:
        with gzip.open(path) as file:
            # One byte more than allowed: enough to notice, whatever a bomb would unpack to.
            line = file.readline(_LINE_LIMIT + 1)
            start = _decoded(line)
            size = 0
            # To the end, where the checksum stands.
            while size <= start.bytes and (chunk := file.read(_CHUNK)):
                size += len(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise NotAnArchiveError(f"it is no whole gzip file: {error}") from error
    if size != start.bytes:
        raise NotAnArchiveError("its samples are cut short or were changed")
    _check_digests(start)
    # Offsets are of the unpacked file.
    places = {
        digest: SamplePosition(offset=len(line) + offset, length=length)
        for digest, (offset, length) in start.places.items()
    }
    result = _answered(start)
    if reason := unfit(result):
        raise NotAnArchiveError(reason)
    # `of` sorts and cleans: a file may hold anything.
    recorded = start.identity
    identity = Identity.of(recorded.facts, recorded.unknown, recorded.noted)
    return ArchivedFile(replace(start, identity=identity, result=result), path, places)


def _decoded(line: bytes) -> ArchivedStart:
    try:
        start = decoded(json.loads(line), ArchivedStart)
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise NotAnArchiveError(f"its first line is none of ours: {error}") from error
    if start.format != FORMAT:
        raise NotAnArchiveError(f"its format is {start.format!r}, not {FORMAT!r}")
    return start


def _check_digests(start: ArchivedStart) -> None:
    """Every request must have a digest in every pass. Raises NotAnArchiveError."""
    # A range, which costs no memory whatever number the file holds.
    passes = range(1, start.passes + 1)
    answers = start.result.digests.values()
    if not answers or any(
        len(by_pass) != start.passes or any(number not in passes for number in by_pass)
        for by_pass in answers
    ):
        raise NotAnArchiveError("it does not hold an answer to every request in every pass")
    # They become keys and parts of messages: nothing else may come from a file of others.
    digests = {digest for by_pass in answers for digest in by_pass.values()}
    if not all(map(_DIGEST.fullmatch, digests | start.places.keys())):
        raise NotAnArchiveError("what names its answers is no digest")


def _answered(start: ArchivedStart) -> StartResult:
    """The result with the outcomes of its digests, as a start of today has them."""
    result = start.result
    answers = {}
    digests = {}
    for request, passes in result.digests.items():
        # One object for the id, as in the starts of today.
        answers[sys.intern(request)] = outcome(passes, start.passes)
        digests[sys.intern(request)] = passes
    return replace(result, start=replace(result.start, answers=answers), digests=digests)
