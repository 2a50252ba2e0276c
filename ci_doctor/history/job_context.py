# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: what a later file adds to a job also counts for the attempts that are there already.

The sums by branch, commit and step count an attempt when it is written, so they are moved.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.history.batch_sums import BatchSums, FileNumbers
from ci_doctor.history.schema import (
    ATTEMPT,
    DAY_MS,
    JOB,
    TEST_COMMIT,
    TEST_DAY,
    UNKNOWN_BRANCH,
    UNKNOWN_STEP,
)

CONTEXT: Final = ("branch_id", "commit_id", "step")
_SKIPPED: Final = 3
_CHUNK: Final = 5_000
Row = Mapping[str, Any]
DayKeys = set[tuple[int, int, int]]
CommitKeys = set[tuple[int, int, str]]


class LateContext(Struct, frozen=True, kw_only=True):
    """A job of which branch, commit or step is known only now: its rows before and after."""

    before: Row
    after: Row


def late_context(before: Row, said: Row) -> LateContext | None:
    """What a file that says `said` adds to the job of the row `before`; None for nothing. Pure."""
    after = {**before, "step": fuller_step(before["step"], said["step"])}
    for name in ("branch_id", "commit_id"):
        if before[name] is None:
            after[name] = said[name]
    return LateContext(before=before, after=after) if after != before else None


def fuller_step(known: str | None, said: str | None) -> str | None:
    """The step with its label, if one of the two has it; else the one that was known first. Pure."""
    if known is None:
        return said
    if said is not None and (said.startswith(f"{known} (") or said.endswith(f" ({known})")):
        return said
    return known


def numbers_of(job: Row, source: int = 0) -> FileNumbers:
    """The numbers by which the attempts of a job are counted. Pure."""
    return FileNumbers(
        source=source,
        job=job["id"],
        branch=job["branch_id"] or UNKNOWN_BRANCH,
        commit=job["commit_id"],
        step=job["step"] or UNKNOWN_STEP,
    )


def update_jobs(connection: sa.Connection, late: Sequence[LateContext]) -> None:
    """Write what is known now. The rows must be locked by this transaction."""
    for each in late:
        values = {name: each.after[name] for name in CONTEXT}
        connection.execute(sa.update(JOB).where(JOB.c.id == each.after["id"]).values(values))


def move_attempts(
    connection: sa.Connection, late: Sequence[LateContext], sums: BatchSums
) -> tuple[DayKeys, CommitKeys]:
    """Add to `sums` what moves the attempts of these jobs that are there already; from which sums.

    It reads the table of attempts from its beginning to its end, once for 5,000 jobs.
    """
    by_job = {each.after["id"]: each for each in late}
    columns = (
        ATTEMPT.c.job_id,
        ATTEMPT.c.test_id,
        ATTEMPT.c.started_ms,
        ATTEMPT.c.outcome,
        ATTEMPT.c.duration_ms,
    )
    days: DayKeys = set()
    commits: CommitKeys = set()
    numbers = sorted(by_job)
    for start in range(0, len(numbers), _CHUNK):
        query = sa.select(*columns).where(
            ATTEMPT.c.job_id.in_(numbers[start : start + _CHUNK]), ATTEMPT.c.outcome != _SKIPPED
        )
        for job, test, started, outcome, duration in connection.execute(query):
            before = numbers_of(by_job[job].before)
            after = numbers_of(by_job[job].after)
            sums.count(before, test, started, outcome, duration or 0, times=-1)
            sums.count(after, test, started, outcome, duration or 0)
            days.add((before.branch, started // DAY_MS, test))
            if before.commit is not None:
                commits.add((before.commit, test, before.step))
    return days, commits


def tidy_sums(connection: sa.Connection, days: DayKeys, commits: CommitKeys) -> None:
    """Remove those of these sums that count nothing any more; make the last times of the others true.

    Their rows are locked already, so that no writer waits for another one in a circle.
    """
    for table, keys in ((TEST_DAY, sorted(days)), (TEST_COMMIT, sorted(commits))):
        if keys:
            nothing = [table.c[name] == 0 for name in ("passed", "failed", "infra")]
            connection.execute(
                sa.delete(table).where(*_by_key(table), *nothing), _named(table, keys)
            )
    if commits:
        statement = sa.update(TEST_COMMIT).where(*_by_key(TEST_COMMIT)).values(last_ms=_last_ms())
        connection.execute(statement, _named(TEST_COMMIT, sorted(commits)))


def _by_key(table: sa.Table) -> list[sa.ColumnElement[bool]]:
    return [column == sa.bindparam(f"key_{column.name}") for column in table.primary_key]


def _named(table: sa.Table, keys: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    names = [f"key_{column.name}" for column in table.primary_key]
    return [dict(zip(names, key, strict=True)) for key in keys]


def _last_ms() -> sa.ScalarSelect[Any]:
    """When the last attempt of a row of TEST_COMMIT began."""
    return (
        sa.select(sa.func.max(ATTEMPT.c.started_ms))
        .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
        .where(
            ATTEMPT.c.test_id == TEST_COMMIT.c.test_id,
            ATTEMPT.c.outcome != _SKIPPED,
            JOB.c.commit_id == TEST_COMMIT.c.commit_id,
            sa.func.coalesce(JOB.c.step, UNKNOWN_STEP) == TEST_COMMIT.c.step,
        )
        .scalar_subquery()
    )
