# SPDX-License-Identifier: Apache-2.0
"""Reads a database: the columns of failures in a window, and what failed in them."""

from collections import Counter
from collections.abc import Iterable, Iterator

import sqlalchemy as sa
from msgspec.structs import replace

from ci_doctor.history.reading.moments import utc_text
from ci_doctor.history.schema import ATTEMPT, JOB, TEST_COMMIT
from ci_doctor.history.statistics.columns import (
    HOUR_MS,
    FailureColumn,
    JobResult,
    failure_columns,
)
from ci_doctor.history.window import HistoryWindow
from ci_doctor.model.facts.history import ColumnFacts

_CHUNK = 5_000
# The condition of the index on failures, word by word: only then it is used. 4 is out again.
_FAILED = sa.and_(sa.text("attempt.outcome IN (1, 2, 4)"), ATTEMPT.c.outcome != 4)
# How often each test failed in columns, by test, commit, step and branch.
ColumnFailures = Counter[tuple[int, int | None, str, int | None]]


def columns_of(connection: sa.Connection, window: HistoryWindow) -> tuple[FailureColumn, ...]:
    """All of the window, whatever its branch: a broken machine breaks every branch."""
    query = sa.select(
        JOB.c.id, JOB.c.agent, JOB.c.commit_id, JOB.c.started_ms, JOB.c.passed, JOB.c.failed
    ).where(JOB.c.started_ms.between(window.since_ms, window.until_ms), JOB.c.agent.is_not(None))
    jobs = [
        JobResult(job=job, agent=agent, commit=commit, started_ms=started, passed=passed, red=red)
        for job, agent, commit, started, passed, red in connection.execute(query)
    ]
    columns = failure_columns(jobs)
    blamed = _blamed_on_the_change(connection, infra_jobs(columns))
    return tuple(
        replace(column, is_infra=column.is_infra and blamed.isdisjoint(column.jobs))
        for column in columns
    )


def infra_jobs(columns: Iterable[FailureColumn]) -> list[int]:
    """The numbers of the jobs in columns of infrastructure."""
    return [job for column in columns if column.is_infra for job in column.jobs]


def failures_in(connection: sa.Connection, columns: Iterable[FailureColumn]) -> ColumnFailures:
    """How often each test failed in the columns of infrastructure."""
    counts: ColumnFailures = Counter()
    step = sa.func.coalesce(JOB.c.step, sa.literal_column("''"))
    place = (ATTEMPT.c.test_id, JOB.c.commit_id, step, JOB.c.branch_id)
    for chunk in _chunks(infra_jobs(columns)):
        query = (
            sa.select(*place, sa.func.count())
            .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
            .where(ATTEMPT.c.job_id.in_(chunk), _FAILED)
            .group_by(*place)
        )
        for test, commit, step_name, branch, count in connection.execute(query):
            counts[test, commit, step_name, branch] += count
    return counts


def _blamed_on_the_change(connection: sa.Connection, jobs: list[int]) -> set[int]:
    """Those of `jobs` of whose failed tests less than half passed anywhere on the same commit.

    Other tests of the commit that pass elsewhere are no witness: a change may break one step.
    """
    blamed = set()
    is_of_commit = sa.and_(
        TEST_COMMIT.c.commit_id == JOB.c.commit_id, TEST_COMMIT.c.test_id == ATTEMPT.c.test_id
    )
    test = ATTEMPT.c.test_id
    passed = sa.case((TEST_COMMIT.c.passed > 0, test))
    for chunk in _chunks(jobs):
        query = (
            sa.select(ATTEMPT.c.job_id, _different(test), _different(passed))
            .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
            .outerjoin(TEST_COMMIT, is_of_commit)
            .where(ATTEMPT.c.job_id.in_(chunk), _FAILED)
            .group_by(ATTEMPT.c.job_id)
        )
        blamed |= {job for job, tests, good in connection.execute(query) if 2 * good < tests}
    return blamed


def _different(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return sa.func.count(sa.distinct(column))


def column_facts(columns: Iterable[FailureColumn]) -> tuple[ColumnFacts, ...]:
    """The columns for a report."""
    return tuple(
        ColumnFacts(
            agent=column.agent,
            hour=utc_text(column.hour * HOUR_MS),
            passed=column.passed,
            failed=column.red,
            is_infra=column.is_infra,
        )
        for column in columns
    )


def _chunks(jobs: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(jobs), _CHUNK):
        yield jobs[start : start + _CHUNK]
