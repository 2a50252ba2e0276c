# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: writes evidence in batches, each in one transaction.

A file that is there already adds nothing: its hash is unique. A batch is written whole or not at
all, so a writer that is killed leaves neither half a file nor one that counts twice.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.history.batch_sums import BatchSums, outcome_counts
from ci_doctor.history.engine import writing
from ci_doctor.history.evidence import EvidenceFile, JobEvidence, parts_of
from ci_doctor.history.job_context import (
    CONTEXT,
    LateContext,
    fuller_step,
    late_context,
    move_attempts,
    numbers_of,
    tidy_sums,
    update_jobs,
)
from ci_doctor.history.known_ids import KnownIds
from ci_doctor.history.schema import (
    ATTEMPT,
    BRANCH,
    CAUSE,
    COMMITS,
    JOB,
    SOURCE,
    TEST,
    TEST_COMMIT,
    TEST_DAY,
)
from ci_doctor.history.upsert import adding, insert_into, insert_rows
from ci_doctor.model.cause import Cause

_SUMS: Final = ("passed", "failed", "infra")
_JOB_FACTS: Final = (
    "pipeline",
    "build",
    *CONTEXT,
    "agent",
    "queue",
    "gpus",
    "cause_id",
)
Row = dict[str, Any]


class WrittenBatch(Struct, frozen=True, kw_only=True):
    """What came in: files that were not there, their attempts, and files that were.

    late_jobs: keys of jobs whose earlier attempts got a branch, a commit or a step.
    """

    files: int
    attempts: int
    known_files: int
    late_jobs: tuple[str, ...] = ()


class EvidenceWriter:
    """Writes to one database, and remembers the numbers of what it has met."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._tests = KnownIds(TEST, ("suite", "name"))
        self._causes = KnownIds(CAUSE, ("fingerprint",))
        self._commits = KnownIds(COMMITS, ("sha",))
        self._branches = KnownIds(BRANCH, ("name",))

    def write(self, files: Sequence[EvidenceFile], now_ms: int) -> WrittenBatch:
        """Write those of `files` that are new, in one transaction."""
        with writing(self._engine) as connection:
            sources = _new_sources(connection, files, now_ms)
            new = [file for file in _unique(files) if file.sha256 in sources]
            late = self._write_new(connection, new, sources)
        attempts = sum(len(file.attempts) for file in new)
        return WrittenBatch(
            files=len(new),
            attempts=attempts,
            known_files=len(files) - len(new),
            late_jobs=late,
        )

    def _write_new(
        self, connection: sa.Connection, files: Sequence[EvidenceFile], sources: dict[str, int]
    ) -> tuple[str, ...]:
        tests = self._tests.of(
            connection, {(each.suite, each.name) for file in files for each in file.attempts}
        )
        causes = self._cause_ids(connection, files)
        jobs, late = self._write_jobs(connection, files, causes)
        sums = BatchSums()
        # Before the attempts of this batch, which are counted as they are known now.
        taken = move_attempts(connection, late, sums)
        for file in files:
            for job, attempts in parts_of(file):
                numbers = numbers_of(jobs[job.key or ""], sources[file.sha256])
                for attempt in attempts:
                    cause = None
                    if attempt.cause is not None:
                        cause = causes[attempt.cause.fingerprint,]
                    sums.add(numbers, tests[attempt.suite, attempt.name], cause, attempt)
        _insert_sums(connection, sums)
        tidy_sums(connection, *taken)
        return tuple(each.after["key"] for each in late)

    def _cause_ids(
        self, connection: sa.Connection, files: Sequence[EvidenceFile]
    ) -> dict[tuple[str, ...], int]:
        rest: dict[tuple[str, ...], dict[str, Any]] = {}
        for file in files:
            for cause in (file.job.cause, *(each.cause for each in file.attempts)):
                if cause is not None:
                    rest.setdefault((cause.fingerprint,), _cause_row(cause))
        return self._causes.of(connection, rest, rest)

    def _write_jobs(
        self,
        connection: sa.Connection,
        files: Sequence[EvidenceFile],
        causes: dict[tuple[str, ...], int],
    ) -> tuple[dict[str, Row], list[LateContext]]:
        """Add what the files say of their jobs; the rows of these jobs by key, and what came late."""
        rows = self._job_rows(connection, files, causes)
        if not rows:
            return {}, []
        statement = _job_upsert(connection)
        returned = connection.execute(statement, list(rows.values())).mappings()
        jobs: dict[str, Row] = {row["key"]: dict(row) for row in returned}
        late = [late_context(jobs[key], said) for key, said in rows.items()]
        changed = [each for each in late if each is not None]
        update_jobs(connection, changed)
        jobs.update((each.after["key"], dict(each.after)) for each in changed)
        had_attempts = [each for each in changed if _had_attempts(each, rows)]
        return jobs, had_attempts

    def _job_rows(
        self,
        connection: sa.Connection,
        files: Sequence[EvidenceFile],
        causes: dict[tuple[str, ...], int],
    ) -> dict[str, Row]:
        """The rows of the jobs by key, each from all files that speak of the job."""
        commits = self._commits.of(connection, _named(file.job.commit for file in files))
        branches = self._branches.of(connection, _named(file.job.branch for file in files))
        rows: dict[str, Row] = {}
        parts = [part for file in files for part in parts_of(file)]
        for job, attempts in sorted(parts, key=lambda part: part[0].key or ""):
            row = _job_row(job)
            row["commit_id"] = commits[job.commit,] if job.commit else None
            row["branch_id"] = branches[job.branch,] if job.branch else None
            row["cause_id"] = causes[job.cause.fingerprint,] if job.cause else None
            row.update(zip(_SUMS, outcome_counts(attempts), strict=True))
            key = job.key or ""
            rows[key] = _together(rows[key], row) if key in rows else row
        return rows


def _had_attempts(late: LateContext, said: dict[str, Row]) -> bool:
    """Whether attempts of the job were counted before these files."""
    own = said[late.after["key"]]
    return any(late.after[name] > own[name] for name in _SUMS)


def _unique(files: Iterable[EvidenceFile]) -> list[EvidenceFile]:
    return list({file.sha256: file for file in files}.values())


def _new_sources(
    connection: sa.Connection, files: Sequence[EvidenceFile], now_ms: int
) -> dict[str, int]:
    """The numbers of the files that were not there, by hash."""
    rows = [
        {
            "sha256": file.sha256,
            "place": file.place,
            "form": file.form,
            "attempts": len(file.attempts),
            "ingested_ms": now_ms,
        }
        for file in sorted(_unique(files), key=lambda each: each.sha256)
    ]
    if not rows:
        return {}
    statement = insert_into(connection, SOURCE).on_conflict_do_nothing()
    returned = connection.execute(statement.returning(SOURCE.c.id, SOURCE.c.sha256), rows)
    return {row.sha256: row.id for row in returned}


def _named(names: Iterable[str | None]) -> set[tuple[str, ...]]:
    return {(name,) for name in names if name}


def _cause_row(cause: Cause) -> Row:
    return {"title": cause.title, "class": cause.class_}


def _job_row(job: JobEvidence) -> Row:
    return {
        "key": job.key or "",
        "pipeline": job.pipeline,
        "build": job.build,
        "step": job.step,
        "agent": job.agent,
        "queue": job.queue,
        "gpus": job.gpus,
        "started_ms": job.started_ms or 0,
        "duration_ms": job.duration_ms,
    }


def _together(first: Row, second: Row) -> Row:
    """Two rows of one job, as the database would put them together."""
    both = dict(first)
    for name in _JOB_FACTS:
        if both[name] is None:
            both[name] = second[name]
    both["step"] = fuller_step(first["step"], second["step"])
    for name in _SUMS:
        both[name] += second[name]
    both["started_ms"] = min(first["started_ms"], second["started_ms"])
    lengths = [row["duration_ms"] for row in (first, second) if row["duration_ms"] is not None]
    both["duration_ms"] = max(lengths, default=None)
    return both


def _job_upsert(connection: sa.Connection) -> Any:
    statement = insert_into(connection, JOB)
    new = statement.excluded
    values: dict[str, Any] = {}
    for name in _JOB_FACTS:
        # The context is as it was: what is added to it moves sums, and only a locked row is sure.
        if name not in CONTEXT:
            values[name] = sa.func.coalesce(JOB.c[name], new[name])
    for name in _SUMS:
        values[name] = JOB.c[name] + new[name]
    values["started_ms"] = sa.case(
        (new.started_ms < JOB.c.started_ms, new.started_ms), else_=JOB.c.started_ms
    )
    longer = sa.or_(JOB.c.duration_ms.is_(None), new.duration_ms > JOB.c.duration_ms)
    values["duration_ms"] = sa.case((longer, new.duration_ms), else_=JOB.c.duration_ms)
    statement = statement.on_conflict_do_update(index_elements=[JOB.c.key], set_=values)
    columns = ("id", "key", *CONTEXT, *_SUMS)
    return statement.returning(*(JOB.c[name] for name in columns))


def _insert_sums(connection: sa.Connection, sums: BatchSums) -> None:
    insert_rows(connection, insert_into(connection, ATTEMPT), sums.attempt_rows())
    by_day = adding(connection, TEST_DAY, (*_SUMS, "duration_ms"))
    insert_rows(connection, by_day, sums.day_rows())
    by_commit = adding(connection, TEST_COMMIT, _SUMS, ("last_ms",))
    insert_rows(connection, by_commit, sums.commit_rows())
