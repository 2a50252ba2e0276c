# SPDX-License-Identifier: Apache-2.0
"""Acts on files: resumes a run that was killed, from its finished starts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.evidence.files import PARTIAL, SAMPLES, clear_unfinished
from ci_doctor.correctness.evidence.finished_starts import read_starts, write_starts
from ci_doctor.correctness.evidence.run_identity import RunIdentity, differences, read_run
from ci_doctor.correctness.evidence.samples import (
    NO_PASS,
    Outputs,
    Sample,
    SamplePosition,
    is_valid,
    read_line,
    read_lines,
)
from ci_doctor.correctness.results import StartResult, unusable_arm, with_answers
from ci_doctor.correctness.settings import Arm, ArmPlan
from ci_doctor.correctness.tally import Tally
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import check_output
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.requests import Request
from ci_doctor.version import tool_version


def _is_answer(sample: Sample) -> bool:
    """Whether a sample's output, if there is one, has the shape of an answer."""
    if sample.output is None:
        return True
    try:
        check_output(sample.output)
    except NotAnAnswerError:
        return False
    return True


class RecordedStart:
    """A finished start and what its samples hold."""

    def __init__(
        self,
        record: StartResult,
        ids: Sequence[str],
        passes: int,
        requests: Sequence[Request] = (),
    ) -> None:
        self.record = record
        self.tally = Tally(
            arm=record.start.arm,
            number=record.start.number,
            ids=ids,
            passes=passes,
            requests=requests,
        )
        # What its samples must still hold: request and pass.
        self._open: set[tuple[str, int]] = set()
        for identity in ids:
            self._open.update((identity, number) for number in range(1, passes + 1))
        self._invalid: str | None = None

    def add(self, sample: Sample) -> None:
        """One more of its samples."""
        # The record holds what came of the control.
        if sample.pass_ == NO_PASS:
            return
        key = (sample.id, sample.pass_)
        answer = f"the answer to {sample.id} in pass {sample.pass_}"
        if key not in self._open:
            self._invalid = f"{answer} stands twice, or was never requested"
        elif not is_valid(sample) or not _is_answer(sample):
            self._invalid = f"{answer} is not what it was"
            # It may have any shape, and the start is made again.
            return
        self._open.discard(key)
        self.tally.add(sample)

    def distrust(self) -> str | None:
        """Why the start must be made again; None if it can be kept."""
        record = self.record
        # Resuming must not erase an outside cause that only the start's own log reports.
        if record.start.outside and not record.start.claimed:
            return "it failed for a reason outside the change"
        if self._invalid:
            return self._invalid
        # A start that failed has no answers to the rest.
        is_incomplete = bool(self._open) and not record.start.failed
        count = self.tally.count
        # The record counts what was written: fewer lines mean that the disk lost some.
        if count != record.samples or is_incomplete:
            return f"only {count} of its answers are in {SAMPLES}"
        return None

    def result(self) -> StartResult:
        """The result as it was when the start was made."""
        record = self.record
        start = record.start
        tally = self.tally
        answers = replace(
            record,
            start=tally.start(failed=start.failed, outside=start.outside),
            digests=tally.digests,
            errors=tally.errors,
        )
        return with_answers(record, answers)


_CHUNK_BYTES = 1 << 20


class Resumed(Struct, frozen=True, kw_only=True):
    """The finished starts in the order in which they were made, and their outputs.

    `again` holds one sentence for each finished start that must be made again.
    """

    results: tuple[StartResult, ...]
    outputs: Outputs
    again: tuple[str, ...] = ()


class _Line(Struct, frozen=True):
    """A line of samples.jsonl that belongs to a finished start."""

    start: str
    digest: str | None
    place: SamplePosition


def free_number(arm: Arm, starts: Iterable[ArmStart]) -> int:
    """The number of the arm's next start: the lowest that none of `starts` has. Pure."""
    taken = set()
    for start in starts:
        # Archived starts have numbers of their own (a1).
        if start.arm is arm and not start.archived:
            taken.add(start.number)
    number = 1
    while number in taken:
        number += 1
    return number


def resume(
    directory: Path,
    identity: RunIdentity,
    *,
    ids: Sequence[str],
    passes: int,
    arms: Mapping[Arm, ArmPlan],
    requests: Sequence[Request] = (),
) -> Resumed:
    """Resume the run in `directory` of the requests `ids`; only its finished starts stay there.

    A finished start is made again if its samples are incomplete or invalid, or if it failed for a
    reason outside the change (unless only its own log says so). So are the starts of an arm whose
    command could not run: somebody may have added what was missing. Memory is bounded by the longest
    answer. A kill is safe at any moment. Raises UsageError if there is no run, or another one; then
    nothing is touched.
    """
    check_resumable(directory, identity)
    try:
        return _resume(directory, _RecordedRun(read_starts(directory), ids, passes, requests), arms)
    except OSError as error:
        raise UsageError(
            f"cannot resume the run in {directory}: {error}",
            hint="leave --resume out to begin anew",
        ) from error


def check_resumable(directory: Path, identity: RunIdentity) -> None:
    """Raises UsageError unless `directory` holds a run of `identity` and of this version."""
    run = read_run(directory)
    changes = list(differences(run.identity, identity))
    # Another version may have other digests of the same answers.
    if run.version != tool_version():
        changes.append(f"ci-doctor {run.version} -> {tool_version()}")
    if changes:
        raise UsageError(
            f"the run in {directory} is another one than this: {'; '.join(changes)}",
            hint="repeat the command line of that run, or leave --resume out to begin anew",
        )


def _resume(directory: Path, evidence: "_RecordedRun", arms: Mapping[Arm, ArmPlan]) -> Resumed:
    path = directory / SAMPLES
    if path.exists():
        for place, line in read_lines(path):
            evidence.add(place, line)
    kept, again = evidence.trusted()
    wrong = unusable_arm([start.result() for start in kept], arms)
    for start in kept:
        if start.record.start.arm is wrong:
            again += (_made_again(start, "its command could not run as it was written"),)
    kept = [start for start in kept if start.record.start.arm is not wrong]
    records = [start.record for start in kept]
    names = {record.start.name for record in records}
    # The starts first: a kill in between leaves samples without a start, which go the next time.
    write_starts(directory, records)
    lines = _keep_only(path, evidence.lines, names)
    clear_unfinished(directory, names)
    return Resumed(
        results=tuple(start.result() for start in kept),
        outputs=_outputs(directory, path, lines),
        again=again,
    )


def _outputs(
    directory: Path, path: Path, lines: Sequence[tuple[str | None, SamplePosition]]
) -> Outputs:
    outputs = Outputs(directory)
    for digest, place in lines:
        # The line of a request that failed has no output.
        if digest is not None:
            outputs.note(digest, path, place)
    return outputs


class _RecordedRun:
    """The finished starts, and every line that belongs to one."""

    def __init__(
        self,
        records: Sequence[StartResult],
        ids: Sequence[str],
        passes: int,
        requests: Sequence[Request],
    ) -> None:
        self.starts: dict[tuple[str, int], RecordedStart] = {}
        for record in records:
            start = RecordedStart(record, ids, passes, requests)
            self.starts[record.start.arm.value, record.start.number] = start
        # One entry for each line of the file. None: it belongs to no finished start.
        self.lines: list[_Line | None] = []

    def add(self, place: SamplePosition, line: bytes) -> None:
        """One line of the samples file."""
        self.lines.append(self._line(place, line))

    def _line(self, place: SamplePosition, line: bytes) -> _Line | None:
        try:
            sample = read_line(line)
        except ValueError:
            # Torn or damaged: its start turns out incomplete.
            return None
        start = self.starts.get((sample.arm, sample.start))
        if start is None:
            return None
        start.add(sample)
        return _Line(start.record.start.name, sample.digest, place)

    def trusted(self) -> tuple[list[RecordedStart], tuple[str, ...]]:
        """The starts that can be kept, and one sentence for each of the others."""
        kept: list[RecordedStart] = []
        again: list[str] = []
        for start in self.starts.values():
            reason = start.distrust()
            if reason is None:
                kept.append(start)
            else:
                again.append(_made_again(start, reason))
        return kept, tuple(again)


def _made_again(start: RecordedStart, reason: str) -> str:
    return f"{start.record.start.name} is made again: {reason}"


def _keep_only(
    path: Path, lines: Sequence[_Line | None], names: Collection[str]
) -> list[tuple[str | None, SamplePosition]]:
    """Leave only the lines of the starts in `names` in the file, replaced atomically.

    Returns the digest of each line left, and its new place.
    """
    kept = [line for line in lines if line is not None and line.start in names]
    # Nothing to leave out: gigabytes of samples need not be copied.
    if len(kept) == len(lines):
        return [(line.digest, line.place) for line in kept]
    places = []
    end = 0
    partial = path.with_name(PARTIAL)
    with path.open("rb") as source, partial.open("wb") as target:
        for line in kept:
            length = line.place.length
            source.seek(line.place.offset)
            _copy(source, target, length)
            place = SamplePosition(offset=end, length=length)
            places.append((line.digest, place))
            end += length
    partial.replace(path)
    return places


def _copy(source: BinaryIO, target: BinaryIO, count: int) -> None:
    """Copy `count` bytes piece by piece: the memory for an answer does not grow with it."""
    left = count
    while left > 0:
        chunk = source.read(min(left, _CHUNK_BYTES))
        if not chunk:
            return
        target.write(chunk)
        left -= len(chunk)
