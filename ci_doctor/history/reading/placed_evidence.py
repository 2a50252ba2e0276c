# SPDX-License-Identifier: Apache-2.0
"""Pure. Parsed files with their places -> evidence: each with its job, none of them twice.

ci-doctor writes one run in several forms (`report.json`, `junit.xml`, `attempts.xml`). The fullest
one counts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.history.evidence import (
    AttemptEvidence,
    AttemptOutcome,
    EvidenceFile,
    JobEvidence,
    ParsedEvidence,
)
from ci_doctor.model.job_record import JOB_FILE
from ci_doctor.render import REPORT_FILE

# The names that the reports of one run have in its folder, and as artifacts.
_SAME_RUN: Final = frozenset({"junit.xml", "attempts.xml"})
_ARTIFACT: Final = re.compile(r"(junit|attempts)-(.+)\.xml")
_RED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.ERROR})


class PlacedFile(Struct, frozen=True, kw_only=True):
    """A file that was read. modified_ms: when it was last written, for evidence without a time."""

    place: str
    sha256: str
    modified_ms: int
    parsed: ParsedEvidence


def evidence_files(
    files: Sequence[PlacedFile], known: JobEvidence
) -> tuple[tuple[EvidenceFile, ...], tuple[str, ...]]:
    """The evidence, and the places of files left out because another one says the same.

    A file's job is its own, completed by the job record in the nearest folder above it, then by
    `known`.
    """
    by_place = {file.place: file for file in files}
    records = {
        str(PurePosixPath(place).parent): file.parsed.job
        for place, file in by_place.items()
        if PurePosixPath(place).name == JOB_FILE
    }
    jobs_with_reports = {file.parsed.job.key for file in files if file.parsed.form == "report"}
    evidence = []
    left_out = []
    for file in files:
        if _is_repeated(file.place, by_place, jobs_with_reports):
            left_out.append(file.place)
            continue
        job = _completed(file.parsed.job, _record_above(file.place, records), known)
        evidence.append(_with_job(file, job))
    return tuple(evidence), tuple(left_out)


def _is_repeated(
    place: str, by_place: Mapping[str, PlacedFile], jobs_with_reports: Iterable[str | None]
) -> bool:
    path = PurePosixPath(place)
    if path.name in _SAME_RUN and str(path.with_name(REPORT_FILE)) in by_place:
        return True
    match = _ARTIFACT.fullmatch(path.name)
    if match is None:
        return False
    if match[2] in jobs_with_reports:
        return True
    return match[1] == "junit" and str(path.with_name(f"attempts-{match[2]}.xml")) in by_place


def _record_above(place: str, records: Mapping[str, JobEvidence]) -> JobEvidence:
    for folder in PurePosixPath(place).parents:
        record = records.get(str(folder))
        if record is not None:
            return record
    return JobEvidence()


def _completed(*jobs: JobEvidence) -> JobEvidence:
    """The first job, with what it does not know from the next ones."""
    values: dict[str, object] = {}
    for job in jobs:
        for name, value in asdict(job).items():
            if values.get(name) is None:
                values[name] = value
    return JobEvidence(**values)  # type: ignore[arg-type]


def _with_job(file: PlacedFile, job: JobEvidence) -> EvidenceFile:
    started_ms = file.modified_ms if job.started_ms is None else job.started_ms
    # Of its own file alone: the cause of a record is counted with the record.
    own_cause = file.parsed.job.cause
    is_outside = job.cause is not None and job.cause.is_outside
    attempts = [_timed(each, started_ms, is_outside=is_outside) for each in file.parsed.attempts]
    return EvidenceFile(
        sha256=file.parsed.key or file.sha256,
        place=file.place,
        form=file.parsed.form,
        job=replace(job, key=job.key or _key(file, job), started_ms=started_ms, cause=own_cause),
        attempts=tuple(attempts),
    )


def _timed(attempt: AttemptEvidence, started_ms: int, *, is_outside: bool) -> AttemptEvidence:
    if is_outside and attempt.outcome in _RED:
        attempt = replace(attempt, outcome=AttemptOutcome.INFRA)
    if attempt.started_ms is None:
        attempt = replace(attempt, started_ms=started_ms)
    return attempt


def _key(file: PlacedFile, job: JobEvidence) -> str:
    """A key for a job without an id: its place in the build, else the file itself."""
    if job.pipeline is not None and job.build is not None and job.step is not None:
        return f"{job.pipeline}/{job.build}/{job.step}"
    return f"file:{(file.parsed.key or file.sha256)[:32]}"
