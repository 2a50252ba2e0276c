# SPDX-License-Identifier: Apache-2.0
"""Reads a database: all attempts of one test."""

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.history.evidence import AttemptOutcome
from ci_doctor.history.infra_columns import columns_of, infra_jobs
from ci_doctor.history.schema import ALL_BRANCHES, ATTEMPT, BRANCH, CAUSE, COMMITS, JOB
from ci_doctor.history.window import HistoryWindow


class KeptAttempt(Struct, frozen=True):
    """One attempt with its job; the order of the fields is that of the query."""

    started_ms: int
    outcome: int
    duration_ms: int | None
    branch: str | None
    commit: str | None
    job: str
    build: int | None
    agent: str | None
    cause: str | None


def attempts_of(
    connection: sa.Connection,
    test: int,
    window: HistoryWindow,
    branch: int,
    outside: frozenset[int] | None = None,
) -> list[KeptAttempt]:
    """The attempts of `test` in the window, in the order of time.

    A failure in a column of infrastructure is one of infrastructure, as in the list of flaky tests.
    outside: the numbers of the jobs in such columns; None if they are not known yet.
    """
    if outside is None:
        outside = frozenset(infra_jobs(columns_of(connection, window)))
    query = (
        sa.select(
            ATTEMPT.c.started_ms,
            ATTEMPT.c.outcome,
            ATTEMPT.c.duration_ms,
            BRANCH.c.name,
            COMMITS.c.sha,
            JOB.c.key,
            JOB.c.build,
            JOB.c.agent,
            CAUSE.c.title,
            JOB.c.id,
        )
        .select_from(ATTEMPT)
        .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
        .outerjoin(BRANCH, BRANCH.c.id == JOB.c.branch_id)
        .outerjoin(COMMITS, COMMITS.c.id == JOB.c.commit_id)
        .outerjoin(CAUSE, CAUSE.c.id == ATTEMPT.c.cause_id)
        .where(
            ATTEMPT.c.test_id == test,
            ATTEMPT.c.started_ms.between(window.since_ms, window.until_ms),
        )
        .order_by(ATTEMPT.c.started_ms, ATTEMPT.c.source_id, ATTEMPT.c.number)
    )
    if branch != ALL_BRANCHES:
        query = query.where(JOB.c.branch_id == branch)
    return [_kept(KeptAttempt(*row), job in outside) for *row, job in connection.execute(query)]


def _kept(attempt: KeptAttempt, is_outside: bool) -> KeptAttempt:
    if is_outside and attempt.outcome in (AttemptOutcome.FAILED, AttemptOutcome.ERROR):
        return replace(attempt, outcome=int(AttemptOutcome.INFRA))
    return attempt
