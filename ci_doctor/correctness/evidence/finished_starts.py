# SPDX-License-Identifier: Apache-2.0
"""Acts on files: `starts.jsonl`, the finished starts, from which another process can resume a run.

A start gets its line after its last sample. Nothing is synchronised to the disk: after a power cut
`resume` notices what is missing, and that start is made again.
"""

import contextlib
import json
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import msgspec
from msgspec import Meta, Struct, structs

from ci_doctor.correctness.evidence.files import STARTS
from ci_doctor.correctness.evidence.run_identity import RunIdentity, Setting, read_run
from ci_doctor.correctness.evidence.samples import append_whole
from ci_doctor.correctness.results import StartResult, relative
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.model.facts.correctness import ControlOutcome, ProofReading, SharedUse
from ci_doctor.model.service import LeftBehind, ServiceFailure
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

SCHEMA = "ci-doctor/start/2"


class StartRecord(Struct, frozen=True, kw_only=True):
    """A line of `starts.jsonl`: a StartResult without what its lines of samples.jsonl hold.

    Logs inside the report directory are relative to it.
    """

    schema: Annotated[str, Meta(pattern=r"^ci-doctor/start/[12]$")] = SCHEMA
    arm: Arm
    number: int
    samples: int
    failed: bool
    outside: bool
    failure: ServiceFailure | None
    duration_s: float
    logs: tuple[str, ...]
    proof_missing: tuple[str, ...]
    killed: tuple[str, ...]
    not_released: tuple[str, ...]
    left_behind: LeftBehind = LeftBehind()
    facts: dict[str, str]
    cached: int | None
    proof: tuple[ProofReading, ...] = ()
    shared: SharedUse = SharedUse()
    control: ControlOutcome | None = None
    devices: str = ""

    @property
    def name(self) -> str:
        """`A1`, `B2`."""
        return f"{self.arm.letter}{self.number}"


def record_of(result: StartResult, samples: int, directory: Path) -> StartRecord:
    """The record of a start with `samples` samples, for the report directory `directory`."""
    start = result.start
    failure = result.failure
    if failure is not None and failure.log is not None:
        log = relative(Path(failure.log), directory)
        failure = structs.replace(failure, log=log)
    return StartRecord(
        arm=start.arm,
        number=start.number,
        samples=samples,
        failed=start.failed,
        outside=start.outside,
        failure=failure,
        duration_s=result.duration_s,
        logs=tuple(relative(log, directory) for log in result.logs),
        proof_missing=start.proof_missing,
        killed=result.killed,
        not_released=result.not_released,
        left_behind=result.left_behind,
        facts=dict(result.facts),
        cached=result.cached,
        proof=result.proof,
        shared=result.shared,
        control=start.control,
        devices=start.devices,
    )


# Fields that may hold a secret. All others are numbers, or names that ci-doctor gave.
_REDACTED = (
    "failure",
    "proof_missing",
    "killed",
    "not_released",
    "left_behind",
    "facts",
    "proof",
    "shared",
    "control",
)


class StartWriter:
    """Appends a line for each finished start to `starts.jsonl`, without secrets.

    `append` as in SampleWriter.
    """

    def __init__(self, directory: Path, redactor: Redactor, *, append: bool = False) -> None:
        self._directory = directory
        self._path = directory / STARTS
        self._redactor = redactor
        self._mode = "ab" if append else "wb"
        self._file: FileIO | None = None

    def __enter__(self) -> Self:
        try:
            self._file = FileIO(self._path, self._mode)
        except OSError as error:
            raise UsageError(
                f"cannot write {self._path}: {error.strerror}",
                hint="choose another directory with --report-dir",
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file:
            with contextlib.suppress(OSError):
                self._file.close()

    def write(self, result: StartResult, samples: int) -> None:
        """Record a start of which `samples` samples are written.

        A start that is no evidence (cut short, warm-up) is left out. Raises InfraError if the disk
        refuses the line.
        """
        assert self._file is not None  # noqa: S101 - used outside `with` is a programming error
        # A resumed run must make such a start again.
        if not result.counts:
            return
        record = record_of(result, samples, self._directory)
        redacted = {name: self._redactor.value(getattr(record, name)) for name in _REDACTED}
        line = _line(structs.replace(record, **redacted))
        try:
            append_whole(self._file, line, self._file.seek(0, 2))
        except OSError as error:
            raise InfraError(
                f"cannot write {self._path}: {error.strerror}", hint="free some disk space"
            ) from error


def write_starts(directory: Path, records: Sequence[StartRecord]) -> None:
    """Replace `starts.jsonl` by these records, atomically. Raises UsageError."""
    # At once: a kill in between must not lose finished starts.
    write_atomically(directory / STARTS, b"".join(map(_line, records)))


def read_starts(directory: Path) -> list[StartRecord]:
    """The finished starts, in the order in which they were made.

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
            value = json.loads(line)
            records.append(msgspec.convert(value, StartRecord))
    return records


def earlier_durations(directory: Path, identity: RunIdentity) -> tuple[tuple[Arm, float], ...]:
    """The seconds that each start of an earlier run took, if that run had the same load.

    Empty if there is none. Call it before the directory is cleared.
    """
    try:
        before = read_run(directory).identity
        if before.requests != identity.requests or _load(before) != _load(identity):
            return ()
        records = read_starts(directory)
    except UsageError:
        return ()
    durations = []
    for record in records:
        # A start that failed ended early, or waited for a deadline: its duration predicts nothing.
        if not record.failed:
            duration = (record.arm, record.duration_s)
            durations.append(duration)
    return tuple(durations)


def _load(identity: RunIdentity) -> tuple[Setting, ...]:
    """The settings on which the duration of a start depends."""
    settings = identity.settings
    return settings.get("passes"), settings.get("concurrency"), settings.get("caches")


def _line(record: StartRecord) -> bytes:
    """One line of ASCII: a path may hold a lone surrogate."""
    return json.dumps(msgspec.to_builtins(record)).encode("ascii") + b"\n"
