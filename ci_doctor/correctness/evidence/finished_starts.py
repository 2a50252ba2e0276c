# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the finished starts of a run, so that another process can go on with it, whenever this one is killed.

`starts.jsonl` gets a line for each finished start, after its last sample. Nothing is synchronised to the disk: after a
power cut `resume` sees what is missing, and has that start made again.
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
from ci_doctor.correctness.evidence.former_keys import START, current
from ci_doctor.correctness.evidence.run_identity import RunIdentity, Setting, read_run
from ci_doctor.correctness.evidence.samples import append_whole
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.services.outcome import ServiceFailure
from ci_doctor.system.files.atomic import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

SCHEMA = "ci-doctor/start/2"


class StartRecord(Struct, frozen=True, kw_only=True):
    """A line of `starts.jsonl`: a StartResult without what its `samples` lines in samples.jsonl tell again.

    Logs are relative to the report directory where they lie in it.
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
    facts: dict[str, str]
    cached: int | None

    @property
    def name(self) -> str:
        """`A1`, `B2`."""
        return f"{self.arm.letter}{self.number}"


class StartWriter:
    """Appends a line for each finished start to `starts.jsonl`, without secrets; `append` as in SampleWriter."""

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
        """A start, and how many samples of it are written; one that is no evidence (cut short, warm-up) is left out.

        Raises InfraError where the disk does not take it.
        """
        assert self._file is not None  # noqa: S101 - used outside `with` is a programming error
        if not result.counts:
            return
        record = _record(result, samples, self._directory)
        shown = {
            name: getattr(record, name)
            for name in ("failure", "proof_missing", "killed", "not_released", "facts")
        }
        record = structs.replace(
            record, **{name: self._redactor.value(value) for name, value in shown.items()}
        )
        try:
            append_whole(self._file, _line(record), self._file.seek(0, 2))
        except OSError as error:
            raise InfraError(
                f"cannot write {self._path}: {error.strerror}", hint="free some disk space"
            ) from error


def _record(result: StartResult, samples: int, directory: Path) -> StartRecord:
    failure = result.failure
    if failure is not None and failure.log is not None:
        failure = structs.replace(failure, log=_relative(Path(failure.log), directory))
    return StartRecord(
        arm=result.start.arm,
        number=result.start.number,
        samples=samples,
        failed=result.start.failed,
        outside=result.start.outside,
        failure=failure,
        duration_s=result.duration_s,
        logs=tuple(_relative(log, directory) for log in result.logs),
        proof_missing=result.start.proof_missing,
        killed=result.killed,
        not_released=result.not_released,
        facts=dict(result.facts),
        cached=result.cached,
    )


def _relative(path: Path, directory: Path) -> str:
    return str(path.relative_to(directory)) if path.is_relative_to(directory) else str(path)


def write_starts(directory: Path, records: Sequence[StartRecord]) -> None:
    """Replace `starts.jsonl` by these, at once. Raises UsageError."""
    write_atomically(directory / STARTS, b"".join(map(_line, records)))


def read_starts(directory: Path) -> list[StartRecord]:
    """The finished starts, in the order in which they were made; a torn line or one that is no record is left out.

    No file means no start. Raises UsageError where there is one that cannot be read.
    """
    try:
        lines = (directory / STARTS).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(
            f"cannot read {directory / STARTS}: {error.strerror}", hint="leave --resume out"
        ) from error
    records = []
    for line in lines:
        with contextlib.suppress(ValueError, msgspec.ValidationError, RecursionError):
            if line.endswith(b"\n"):
                records.append(msgspec.convert(current(json.loads(line), START), StartRecord))
    return records


def earlier_durations(directory: Path, identity: RunIdentity) -> tuple[tuple[Arm, float], ...]:
    """How long each start took (seconds) of an earlier run that was asked as much; empty where there is none.

    To be read before the directory is cleared.
    """
    try:
        before = read_run(directory).identity
        if before.requests == identity.requests and _load(before) == _load(identity):
            return tuple(
                (record.arm, record.duration_s)
                for record in read_starts(directory)
                if not record.failed
            )
    except UsageError:
        pass
    return ()


def _load(identity: RunIdentity) -> tuple[Setting, ...]:
    return tuple(identity.settings.get(name) for name in ("passes", "concurrency", "caches"))


def _line(record: StartRecord) -> bytes:
    """One line of ASCII: a path may hold a lone surrogate."""
    return json.dumps(msgspec.to_builtins(record)).encode("ascii") + b"\n"
