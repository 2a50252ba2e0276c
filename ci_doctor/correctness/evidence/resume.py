# SPDX-License-Identifier: Apache-2.0
"""Acts on files: goes on with a run that was killed, from its finished starts."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, structs

from ci_doctor.correctness.evidence.files import PARTIAL, SAMPLES, clear_unfinished
from ci_doctor.correctness.evidence.finished_starts import StartRecord, read_starts, write_starts
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.run_identity import RunIdentity, differences, read_run
from ci_doctor.correctness.evidence.samples import (
    Sample,
    SamplePosition,
    is_valid,
    read_line,
    read_lines,
)
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.tally import Tally
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.errors import UsageError
from ci_doctor.version import tool_version

_CHUNK_BYTES = 1 << 20


class Resumed(Struct, frozen=True, kw_only=True):
    """The finished starts in the order in which they were made, and their outputs.

    `again` says, a sentence each, which starts were finished and are made again nevertheless.
    """

    results: tuple[StartResult, ...]
    outputs: Outputs
    again: tuple[str, ...] = ()


def free_number(arm: Arm, starts: Iterable[ArmStart]) -> int:
    """The number of the arm's next start: the lowest that none of `starts` has. Pure."""
    taken = {start.number for start in starts if start.arm is arm and not start.archived}
    return next(number for number in range(1, len(taken) + 2) if number not in taken)


def resume(directory: Path, identity: RunIdentity, *, ids: Sequence[str], passes: int) -> Resumed:
    """Take up the run in `directory`, of the requests `ids`, and leave only its finished starts there.

    A finished start whose samples are not all there, or not sound, is not trusted; one that failed for a reason outside
    the change, by more than its own word, deserves another chance. Memory is bounded by the longest answer. May itself be killed at any moment.
    Raises UsageError where there is no run, or another one: then nothing is touched.
    """
    run = read_run(directory)
    differing = differences(run.identity, identity)
    if run.version != tool_version():
        differing = (*differing, f"ci-doctor {run.version} -> {tool_version()}")
    if differing:
        raise UsageError(
            f"the run in {directory} is another one than this: {'; '.join(differing)}",
            hint="repeat the command line of that run, or leave --resume out to begin anew",
        )
    try:
        return _take_up(directory, ids, passes)
    except OSError as error:
        raise UsageError(
            f"cannot go on with the run in {directory}: {error}",
            hint="leave --resume out to begin anew",
        ) from error


def _take_up(directory: Path, ids: Sequence[str], passes: int) -> Resumed:
    gathered = _Gathered(read_starts(directory), ids, passes)
    path = directory / SAMPLES
    if path.exists():
        for place, line in read_lines(path):
            gathered.add(place, line)
    kept, again = gathered.trusted()
    # The starts first: whoever is killed in between has samples without a start, which go the next time.
    write_starts(directory, [start.record for start in kept])
    places = _keep_only(path, gathered.lines, {start.record.name for start in kept})
    clear_unfinished(directory, {start.record.name for start in kept})
    outputs = Outputs()
    for digest, place in places:
        if digest is not None:
            outputs.note(digest, path, place)
    return Resumed(
        results=tuple(start.result(directory) for start in kept), outputs=outputs, again=again
    )


class _Line(Struct, frozen=True):
    """A line of samples.jsonl that belongs to a finished start."""

    start: str
    digest: str | None
    place: SamplePosition


class _Recorded:
    """A finished start with what its samples say."""

    def __init__(self, record: StartRecord, ids: Sequence[str], passes: int) -> None:
        self.record = record
        self.tally = Tally(arm=record.arm, number=record.number, ids=ids, passes=passes)
        self.tally.proof_missing = record.proof_missing
        self._open = {(identity, number) for identity in ids for number in range(1, passes + 1)}
        self._unsound: str | None = None

    def add(self, sample: Sample) -> None:
        """One more of its samples."""
        if (sample.id, sample.pass_) not in self._open:
            self._unsound = f"the answer to {sample.id} in pass {sample.pass_} stands twice, or was never asked for"
        elif not is_valid(sample):
            self._unsound = f"the answer to {sample.id} in pass {sample.pass_} is not what it was"
        self._open.discard((sample.id, sample.pass_))
        self.tally.add(sample)

    @property
    def _claimed(self) -> bool:
        """Whether only its own log says that the cause lies outside: that must not go away by going on."""
        failure = self.record.failure
        return self.record.outside and failure is not None and failure.log is not None

    def distrust(self) -> str | None:
        """Why it must be made again; None where it need not."""
        if self.record.outside and not self._claimed:
            return "it failed for a reason outside the change"
        if self._unsound:
            return self._unsound
        if self.tally.count != self.record.samples or (self._open and not self.record.failed):
            return f"only {self.tally.count} of its answers are in {SAMPLES}"
        return None

    def result(self, directory: Path) -> StartResult:
        """As it was when the start was made."""
        record, failure = self.record, self.record.failure
        if failure is not None and failure.log is not None:
            failure = structs.replace(failure, log=str(directory / failure.log))
        return StartResult(
            start=self.tally.start(
                failed=record.failed, outside=record.outside, claimed=self._claimed
            ),
            failure=failure,
            duration_s=record.duration_s,
            logs=tuple(directory / log for log in record.logs),
            digests=self.tally.digests,
            errors=self.tally.errors,
            killed=record.killed,
            not_released=record.not_released,
            throttled=len(self.tally.throttled),
            facts=record.facts,
            cached=record.cached,
        )


class _Gathered:
    """The finished starts, and every line that belongs to one."""

    def __init__(self, records: Sequence[StartRecord], ids: Sequence[str], passes: int) -> None:
        self.starts = {
            (record.arm.value, record.number): _Recorded(record, ids, passes) for record in records
        }
        self.lines: list[_Line | None] = []

    def add(self, place: SamplePosition, line: bytes) -> None:
        """One line of the samples file; None stands for one that belongs to no finished start."""
        try:
            sample = read_line(line)
        except ValueError:  # torn, or damaged: its start will be found incomplete
            self.lines.append(None)
            return
        start = self.starts.get((sample.arm, sample.start))
        if start is not None:
            start.add(sample)
        self.lines.append(_Line(start.record.name, sample.digest, place) if start else None)

    def trusted(self) -> tuple[list[_Recorded], tuple[str, ...]]:
        """The starts that need not be made again, and a sentence for each of the others."""
        kept, again = [], []
        for start in self.starts.values():
            reason = start.distrust()
            if reason is None:
                kept.append(start)
            else:
                again.append(f"{start.record.name} is made again: {reason}")
        return kept, tuple(again)


def _keep_only(
    path: Path, lines: Sequence[_Line | None], names: Collection[str]
) -> list[tuple[str | None, SamplePosition]]:
    """Leave the lines of the starts in `names` alone in the file, replaced at once; their digests, and where each now is."""
    kept = [line for line in lines if line is not None and line.start in names]
    if len(kept) == len(lines):
        return [(line.digest, line.place) for line in kept]
    places, end = [], 0
    partial = path.with_name(PARTIAL)
    with path.open("rb") as source, partial.open("wb") as target:
        for line in kept:
            source.seek(line.place.offset)
            _copy(source, target, line.place.length)
            places.append((line.digest, SamplePosition(offset=end, length=line.place.length)))
            end += line.place.length
    partial.replace(path)
    return places


def _copy(source: BinaryIO, target: BinaryIO, count: int) -> None:
    while count and (chunk := source.read(min(count, _CHUNK_BYTES))):
        target.write(chunk)
        count -= len(chunk)
