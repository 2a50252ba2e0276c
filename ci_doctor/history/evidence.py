# SPDX-License-Identifier: Apache-2.0
"""Pure. What an evidence file holds: a job, and the attempts of its tests."""

from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.cause import Cause


class AttemptOutcome(IntEnum):
    """How one attempt ended. The numbers stand in the database: never change one.

    `INFRA` is a failure or an error whose cause lies outside the change.
    """

    PASSED = 0
    FAILED = 1
    ERROR = 2
    SKIPPED = 3
    INFRA = 4


class AttemptEvidence(Struct, frozen=True, kw_only=True):
    """One execution of a test; `suite` and `name` identify the test from run to run.

    number: from 1, of the executions of this test in this file. started_ms: UTC, milliseconds
    since 1970; None if the file does not say. duration_ms: None if it does not say. row: what tells
    executions of one test apart that are no attempts of each other, as of two browsers; None if nothing need.
    """

    suite: str
    name: str
    outcome: AttemptOutcome
    number: int = 1
    started_ms: int | None = None
    duration_ms: int | None = None
    cause: Cause | None = None
    row: str | None = None


class JobEvidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job in which the attempts ran. What is unknown is None.

    key: identifies the job across files; None until it is known. step: its key. label: of a job that is
    not one of several parallel ones; the jobs of a matrix share a key, and their labels hold its values.
    gpus: the number of
    GPUs on its machine. started_ms: as in AttemptEvidence; duration_ms: wall clock.
    """

    key: str | None = None
    pipeline: str | None = None
    build: int | None = None
    step: str | None = None
    label: str | None = None
    branch: str | None = None
    commit: str | None = None
    agent: str | None = None
    queue: str | None = None
    gpus: int | None = None
    started_ms: int | None = None
    duration_ms: int | None = None
    cause: Cause | None = None


class ParsedEvidence(Struct, frozen=True, kw_only=True):
    """What one file says, without what stands around it.

    form: a word for its format. key: what it is known by; None for the hash of its bytes.
    zoneless_end_ms: when the run ended, with its times read as UTC; None if they have an offset.
    """

    form: str
    key: str | None = None
    job: JobEvidence = JobEvidence()
    attempts: tuple[AttemptEvidence, ...] = ()
    zoneless_end_ms: int | None = None


class EvidenceFile(Struct, frozen=True, kw_only=True):
    """One file, ready to be written: its job has a key, its job and attempts have times.

    sha256: hexadecimal, of the file's bytes; of a report of ours, of what identifies its run. place: its path, for a reader.
    """

    sha256: str
    place: str
    form: str
    job: JobEvidence
    attempts: tuple[AttemptEvidence, ...] = ()


def parts_of(file: EvidenceFile) -> tuple[tuple[JobEvidence, tuple[AttemptEvidence, ...]], ...]:
    """The attempts of a file with their job; those of a row belong to a step of its own.

    What a job costs, and its cause, counts once, with the job itself.
    """
    by_row: dict[str | None, list[AttemptEvidence]] = {None: []}
    for attempt in file.attempts:
        by_row.setdefault(attempt.row, []).append(attempt)
    parts = []
    for row, attempts in by_row.items():
        job = file.job
        if row is not None:
            step = row if job.step is None else f"{job.step} ({row})"
            job = replace(
                job, key=f"{job.key} {row}", step=step, duration_ms=None, gpus=None, cause=None
            )
        parts.append((job, tuple(attempts)))
    return tuple(parts)
