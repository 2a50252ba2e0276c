# SPDX-License-Identifier: Apache-2.0
"""Reads a database: the columns of failures in a window, and what failed in them."""

from collections import Counter
from collections.abc import Iterable, Iterator

import sqlalchemy as sa

from ci_doctor.history.reading.moments import utc_text
from ci_doctor.history.schema import ATTEMPT, JOB
from ci_doctor.history.statistics.columns import (
    HOUR_MS,
    FailureColumn,
    JobResult,
    failure_columns,
)
from ci_doctor.history.window import HistoryWindow
from ci_doctor.model.facts.history import ColumnFacts

_CHUNK = 5_000


def columns_of(connection: sa.Connection, window: HistoryWindow) -> tuple[FailureColumn, ...]:
    """All of the window, whatever its branch: a broken machine breaks every branch."""
    query = sa.select(
        JOB.c.id, JOB.c.agent, JOB.c.commit_id, JOB.c.started_ms, JOB.c.passed, JOB.c.failed
    ).where(JOB.c.started_ms.between(window.since_ms, window.until_ms), JOB.c.agent.is_not(None))
    jobs = [
        JobResult(job=job, agent=agent, commit=commit, started_ms=started, passed=passed, red=red)
        for job, agent, commit, started, passed, red in connection.execute(query)
    ]
    return failure_columns(jobs)


def failures_in(
    connection: sa.Connection, columns: Iterable[FailureColumn]
) -> Counter[tuple[int, int | None]]:
    """How often each test failed on each commit in the columns of infrastructure."""
    counts: Counter[tuple[int, int | None]] = Counter()
    jobs = [job for column in columns if column.is_infra for job in column.jobs]
    for chunk in _chunks(jobs):
        query = (
            sa.select(ATTEMPT.c.test_id, JOB.c.commit_id, sa.func.count())
            .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
            # `IN (1, 2, 4)` as in the index on failures, and 4 is out again.
            .where(
                ATTEMPT.c.job_id.in_(chunk),
                sa.text("attempt.outcome IN (1, 2, 4)"),
                ATTEMPT.c.outcome != 4,
            )
            .group_by(ATTEMPT.c.test_id, JOB.c.commit_id)
        )
        for test, commit, count in connection.execute(query):
            counts[test, commit] += count
    return counts


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
