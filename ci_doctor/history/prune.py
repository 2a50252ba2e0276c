# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: removes attempts before a day, and makes the sums true again.

The hashes of their files stay: a folder that is ingested again must not bring them back.
"""

import sqlite3

import sqlalchemy as sa

from ci_doctor.errors import InfraError
from ci_doctor.history.engine import writing
from ci_doctor.history.schema import ATTEMPT, DAY_MS, JOB, TEST_COMMIT, TEST_DAY


def prune(engine: sa.Engine, first_day: int) -> int:
    """Remove all attempts before `first_day` (days since 1970); how many there were.

    Raises InfraError also if they are removed and a SQLite file could not be made smaller.
    """
    before_ms = first_day * DAY_MS
    with writing(engine) as connection:
        old_jobs = sa.select(JOB.c.id).where(JOB.c.started_ms < before_ms)
        removed = connection.execute(sa.delete(ATTEMPT).where(ATTEMPT.c.started_ms < before_ms))
        connection.execute(sa.delete(TEST_DAY).where(TEST_DAY.c.day < first_day))
        _sum_commits_again(connection, before_ms)
        # A job over midnight has attempts left; its sums hold those before midnight, too.
        left = sa.select(ATTEMPT.c.job_id).where(ATTEMPT.c.job_id.in_(old_jobs)).distinct()
        kept = [number for (number,) in connection.execute(left)]
        _sum_jobs_again(connection, kept)
        gone = sa.delete(JOB).where(JOB.c.started_ms < before_ms)
        if kept:
            gone = gone.where(JOB.c.id.not_in(kept))
        connection.execute(gone)
    _give_back_space(engine)
    return removed.rowcount


def _count(*outcomes: int) -> sa.ColumnElement[int]:
    return sa.func.count(sa.case((ATTEMPT.c.outcome.in_(outcomes), 1)))


def _sum_commits_again(connection: sa.Connection, before_ms: int) -> None:
    """For each commit that a removed attempt may have been of."""
    commits = sa.select(JOB.c.commit_id).where(
        JOB.c.started_ms < before_ms, JOB.c.commit_id.is_not(None)
    )
    connection.execute(sa.delete(TEST_COMMIT).where(TEST_COMMIT.c.commit_id.in_(commits)))
    step = sa.func.coalesce(JOB.c.step, sa.literal_column("''"))
    left = (
        sa.select(
            JOB.c.commit_id,
            ATTEMPT.c.test_id,
            step,
            _count(0),
            _count(1, 2),
            _count(4),
            sa.func.max(ATTEMPT.c.started_ms),
        )
        .join(ATTEMPT, ATTEMPT.c.job_id == JOB.c.id)
        .where(JOB.c.commit_id.in_(commits), ATTEMPT.c.outcome != 3)
        .group_by(JOB.c.commit_id, ATTEMPT.c.test_id, step)
    )
    names = ["commit_id", "test_id", "step", "passed", "failed", "infra", "last_ms"]
    connection.execute(sa.insert(TEST_COMMIT).from_select(names, left))


def _sum_jobs_again(connection: sa.Connection, jobs: list[int]) -> None:
    for job in jobs:
        query = sa.select(_count(0), _count(1, 2), _count(4)).where(ATTEMPT.c.job_id == job)
        passed, failed, infra = connection.execute(query).one()
        values = {"passed": passed, "failed": failed, "infra": infra}
        connection.execute(sa.update(JOB).where(JOB.c.id == job).values(values))


def _give_back_space(engine: sa.Engine) -> None:
    """Make a SQLite file smaller; PostgreSQL's autovacuum does the same by itself."""
    if engine.dialect.name != "sqlite":
        return
    raw = engine.raw_connection()
    try:
        raw.cursor().execute("VACUUM")
    except sqlite3.Error as error:
        name = engine.url.render_as_string(hide_password=True)
        raise InfraError(
            f"{name}: the attempts are removed, but the file is as large as before ({error})",
            hint="ci-doctor history prune again, if nobody writes and the disk has room for a copy",
        ) from error
    finally:
        raw.close()
