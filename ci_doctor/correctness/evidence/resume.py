# SPDX-License-Identifier: Apache-2.0
"""Acts on files: `starts.jsonl`, the finished starts, and how a run that was killed goes on with them.

A start gets its line after its last sample. Nothing is synchronised to the disk: after a power cut
`resume` notices what is missing, and that start is made again.
"""

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.evidence.run_identity import (
    PARTIAL,
    STARTS,
    RunIdentity,
    clear_unfinished,
    differences,
    read_run,
)
from ci_doctor.correctness.evidence.samples import (
    NO_PASS,
    EvidenceFile,
    Outputs,
    Sample,
    SamplePosition,
    is_valid,
    read_line,
    read_lines,
)
from ci_doctor.correctness.results import (
    SAMPLES,
    StartResult,
    Tally,
    decoded,
    encoded,
    relative,
    unusable_arm,
    with_answers,
    without_answers,
)
from ci_doctor.correctness.settings import Arm, ArmPlan
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.errors import UsageError
from ci_doctor.load.answer_items import NotAnAnswerError
from ci_doctor.load.canonical import check_output
from ci_doctor.load.requests import Request
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.secrets.redaction import Redactor
from ci_doctor.version import tool_version

# --- `starts.jsonl`, the finished starts ---

SCHEMA = "ci-doctor/start/4"


class StartWriter(EvidenceFile):
    """Appends a line for each finished start to `starts.jsonl`, without secrets."""

    def __init__(self, directory: Path, redactor: Redactor, *, append: bool = False) -> None:
        super().__init__(directory / STARTS, append=append)
        self._redactor = redactor

    def write(self, result: StartResult) -> None:
        """Record a start whose samples are written.

        A start that is no evidence (cut short, warm-up) is left out: a resumed run must make it again.
        Raises InfraError if the disk refuses the line.
        """
        if result.counts:
            self.append_line(_start_line(recordable(result, self._redactor), self.path.parent))


def recordable(result: StartResult, redactor: Redactor) -> StartResult:
    """A start without its answers and without secrets."""
    record: StartResult = redactor.value(without_answers(result))
    return record


def write_starts(directory: Path, records: Sequence[StartResult]) -> None:
    """Replace `starts.jsonl` by these records, atomically. Raises UsageError."""
    # At once: a kill in between must not lose finished starts.
    lines = (_start_line(record, directory) for record in records)
    write_atomically(directory / STARTS, b"".join(lines))


def read_starts(directory: Path) -> list[StartResult]:
    """The finished starts without their answers, in the order in which they were made.

    A torn line, or one that is no record, is left out. Without a file there are none. Raises
    UsageError if the file cannot be read.
    """
    path = directory / STARTS
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="leave --resume out"
        ) from error
    records = []
    for line in lines:
        # A line without its newline was cut off by a kill, even if it happens to be JSON.
        if not line.endswith(b"\n"):
            continue
        with contextlib.suppress(ValueError, msgspec.ValidationError, RecursionError):
            record = decoded(json.loads(line), _StartLine)
            if record.schema == SCHEMA:
                records.append(_moved(record.result, lambda path: str(directory / path)))
    return records


class _StartLine(Struct, frozen=True):
    """A line of `starts.jsonl`. Logs inside the report directory are relative to it."""

    schema: str
    result: StartResult


def _start_line(record: StartResult, directory: Path) -> bytes:
    """One line of ASCII: a path may hold a lone surrogate."""
    line = _StartLine(SCHEMA, _moved(record, lambda path: relative(path, directory)))
    return json.dumps(encoded(line)).encode("ascii") + b"\n"


def _moved(result: StartResult, move: Callable[[str], str]) -> StartResult:
    """The start with the paths of its logs changed."""
    failure = result.failure
    if failure is not None and failure.log is not None:
        failure = replace(failure, log=move(failure.log))
    services = tuple(
        replace(each, log=move(each.log)) if each.log else each for each in result.services
    )
    return replace(result, failure=failure, services=services)


# --- a run that was killed goes on ---


def _is_answer(sample: Sample) -> bool:
    """Whether a sample's output, if there is one, has the shape of an answer."""
    try:
        if sample.output is not None:
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
        self.name = record.start.name
        self.tally = Tally(
            arm=record.start.arm,
            number=record.start.number,
            ids=ids,
            passes=passes,
            requests=requests,
        )
        # What its samples must still hold: request and pass.
        self._open = {(identity, number) for identity in ids for number in range(1, passes + 1)}
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

    def distrust(self, *, failed_is_kept: bool = False) -> str | None:
        """Why the start must be made again; None if it can be kept."""
        start = self.record.start
        # Resuming must not erase an outside cause that only the start's own log reports.
        if start.outside and not start.claimed and not failed_is_kept:
            return "it failed for a reason outside the change"
        if self._invalid:
            return self._invalid
        # A start that failed has no answers to the rest. The record counts what was written: fewer
        # lines mean that the disk lost some.
        is_incomplete = bool(self._open) and not start.failed
        if self.tally.count != self.record.samples or is_incomplete:
            return f"only {self.tally.count} of its answers are in {SAMPLES}"
        return None

    def result(self) -> StartResult:
        """The result as it was when the start was made."""
        return with_answers(self.record, self.tally.result())


_CHUNK_BYTES = 1 << 20


class Resumed(Struct, frozen=True, kw_only=True):
    """The finished starts in the order in which they were made, and their outputs.

    `again` holds one sentence for each finished start that must be made again.
    """

    results: tuple[StartResult, ...]
    outputs: Outputs
    again: tuple[str, ...] = ()


class _Line(NamedTuple):
    """A line of samples.jsonl that belongs to a finished start."""

    start: str
    digest: str | None
    place: SamplePosition


def free_number(arm: Arm, starts: Iterable[ArmStart]) -> int:
    """The number of the arm's next start: the lowest that none of `starts` has. Pure."""
    # Archived starts have numbers of their own (a1).
    taken = {start.number for start in starts if start.arm is arm and not start.archived}
    return min(set(range(1, len(taken) + 2)) - taken)


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
        starts = [RecordedStart(each, ids, passes, requests) for each in read_starts(directory)]
        return _resume(directory, starts, arms)
    except OSError as error:
        raise UsageError(
            f"cannot resume the run in {directory}: {error}",
            hint="leave --resume out to begin anew",
        ) from error


def reread(
    directory: Path, *, ids: Sequence[str], passes: int, requests: Sequence[Request] = ()
) -> Resumed:
    """The starts that other jobs of one run have made, from their lines in `directory`: those that are whole.

    However one of them failed, it is evidence, and nobody has mended anything since. Raises UsageError.
    """
    starts = [RecordedStart(each, ids, passes, requests) for each in read_starts(directory)]
    return _resume(directory, starts, None)


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


def _resume(
    directory: Path, recorded: Sequence[RecordedStart], arms: Mapping[Arm, ArmPlan] | None
) -> Resumed:
    """The starts that are whole. Without `arms` none of them is distrusted for how it failed."""
    path = directory / SAMPLES
    starts = {(each.record.start.arm.value, each.record.start.number): each for each in recorded}
    # One entry for each line of the file. None: it belongs to no finished start.
    lines: list[_Line | None] = []
    if path.exists():
        lines = [_line(starts, place, line) for place, line in read_lines(path)]
    reasons = {each.name: each.distrust(failed_is_kept=arms is None) for each in starts.values()}
    kept = [each for each in starts.values() if reasons[each.name] is None]
    wrong = unusable_arm([each.result() for each in kept], arms) if arms is not None else None
    for each in kept:
        if each.record.start.arm is wrong:
            reasons[each.name] = "its command could not run as it was written"
    kept = [each for each in kept if reasons[each.name] is None]
    names = {each.name for each in kept}
    # The starts first: a kill in between leaves samples without a start, which go the next time.
    write_starts(directory, [each.record for each in kept])
    outputs = Outputs(directory)
    for digest, place in _keep_only(path, lines, names):
        # The line of a request that failed has no output.
        if digest is not None:
            outputs.note(digest, path, place)
    clear_unfinished(directory, names)
    return Resumed(
        results=tuple(each.result() for each in kept),
        outputs=outputs,
        again=tuple(f"{name} is made again: {why}" for name, why in reasons.items() if why),
    )


def _line(
    starts: Mapping[tuple[str, int], RecordedStart], place: SamplePosition, line: bytes
) -> _Line | None:
    """One line of the samples file, which its start takes note of."""
    try:
        sample = read_line(line)
    except ValueError:
        # Torn or damaged: its start turns out incomplete.
        return None
    start = starts.get((sample.arm, sample.start))
    if start is None:
        return None
    start.add(sample)
    return _Line(start.name, sample.digest, place)


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
            source.seek(line.place.offset)
            _copy(source, target, line.place.length)
            places.append((line.digest, replace(line.place, offset=end)))
            end += line.place.length
    partial.replace(path)
    return places


def _copy(source: BinaryIO, target: BinaryIO, count: int) -> None:
    """Copy `count` bytes piece by piece: the memory for an answer does not grow with it."""
    while count > 0 and (chunk := source.read(min(count, _CHUNK_BYTES))):
        target.write(chunk)
        count -= len(chunk)
