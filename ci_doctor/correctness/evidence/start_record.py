# SPDX-License-Identifier: Apache-2.0
"""A finished start as a line of `starts.jsonl`. Pure."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, structs

from ci_doctor.correctness.proof_reading import ProofReading
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.shared_use import SharedUse
from ci_doctor.correctness.verdict.starts import ControlOutcome
from ci_doctor.model.service import LeftBehind, ServiceFailure

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


def relative(path: Path, directory: Path) -> str:
    """A path inside the report directory relative to it; any other path as it is."""
    # A report directory may be moved, or downloaded as an artifact: its own logs stay findable.
    if path.is_relative_to(directory):
        return str(path.relative_to(directory))
    return str(path)
