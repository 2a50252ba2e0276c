# SPDX-License-Identifier: Apache-2.0
"""Reads a database: what each cause cost, in time and in GPU time."""

from typing import Any, Final

import sqlalchemy as sa

from ci_doctor.history.branches import branch_number
from ci_doctor.history.reading.moments import utc_text
from ci_doctor.history.schema import ALL_BRANCHES, ATTEMPT, CAUSE, JOB
from ci_doctor.history.window import HistoryWindow
from ci_doctor.model.facts.history import CauseCostFacts, CostFacts

_MOST: Final = 50


def cost_facts(connection: sa.Connection, window: HistoryWindow) -> CostFacts:
    """The dearest causes of jobs (their whole time), and of attempts (their own time).

    The two overlap: an attempt ran in a job. Raises UsageError for an unknown branch.
    """
    branch = branch_number(connection, window.branch)
    in_window: list[sa.ColumnElement[bool]] = [
        JOB.c.started_ms.between(window.since_ms, window.until_ms)
    ]
    if branch != ALL_BRANCHES:
        in_window.append(JOB.c.branch_id == branch)
    of_jobs = sa.select(*_sums(JOB.c.duration_ms)).join(CAUSE, CAUSE.c.id == JOB.c.cause_id)
    of_attempts = (
        sa.select(*_sums(ATTEMPT.c.duration_ms))
        .select_from(JOB)
        .join(ATTEMPT, ATTEMPT.c.job_id == JOB.c.id)
        .join(CAUSE, CAUSE.c.id == ATTEMPT.c.cause_id)
        # The condition of the index on failures, word by word.
        .where(sa.text("attempt.outcome IN (1, 2, 4)"))
    )
    return CostFacts(
        since=utc_text(window.since_ms),
        jobs=_dearest(connection, of_jobs.where(*in_window)),
        attempts=_dearest(connection, of_attempts.where(*in_window)),
    )


def _sums(duration: sa.ColumnElement[Any]) -> list[sa.ColumnElement[Any]]:
    return [
        CAUSE.c.fingerprint,
        CAUSE.c.title,
        CAUSE.c["class"],
        sa.func.count(),
        sa.func.coalesce(sa.func.sum(duration), 0).label("cost"),
        sa.func.sum(duration * JOB.c.gpus),
        sa.func.max(JOB.c.started_ms),
    ]


def _dearest(connection: sa.Connection, query: sa.Select[Any]) -> tuple[CauseCostFacts, ...]:
    names = (CAUSE.c.fingerprint, CAUSE.c.title, CAUSE.c["class"])
    grouped = query.group_by(*names).order_by(sa.desc("cost"), CAUSE.c.fingerprint).limit(_MOST)
    causes = []
    for fingerprint, title, class_, count, length, gpu, last in connection.execute(grouped):
        causes.append(
            CauseCostFacts(
                fingerprint=fingerprint,
                title=title,
                class_=class_,
                count=count,
                seconds=int(length) / 1000,
                gpu_s=None if gpu is None else int(gpu) / 1000,
                last_at=utc_text(last),
            )
        )
    return tuple(causes)
