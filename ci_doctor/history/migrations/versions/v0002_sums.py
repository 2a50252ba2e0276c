# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: sums of attempts by day and by commit, made of what is there."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_PASSED = "COUNT(CASE WHEN a.outcome = 0 THEN 1 END)"
_FAILED = "COUNT(CASE WHEN a.outcome IN (1, 2) THEN 1 END)"
_INFRA = "COUNT(CASE WHEN a.outcome = 4 THEN 1 END)"
_FILL_DAYS = f"""
    INSERT INTO test_day (branch_id, day, test_id, passed, failed, infra, duration_ms)
    SELECT COALESCE(j.branch_id, 0), a.started_ms / 86400000, a.test_id,
           {_PASSED}, {_FAILED}, {_INFRA}, COALESCE(SUM(a.duration_ms), 0)
    FROM attempt a JOIN job j ON j.id = a.job_id
    WHERE a.outcome <> 3
    GROUP BY 1, 2, 3
"""  # noqa: S608 - constants of this module
_FILL_ALL_BRANCHES = """
    INSERT INTO test_day (branch_id, day, test_id, passed, failed, infra, duration_ms)
    SELECT -1, day, test_id, SUM(passed), SUM(failed), SUM(infra), SUM(duration_ms)
    FROM test_day
    GROUP BY 1, 2, 3
"""
_FILL_COMMITS = f"""
    INSERT INTO test_commit (commit_id, test_id, passed, failed, infra, last_ms)
    SELECT j.commit_id, a.test_id, {_PASSED}, {_FAILED}, {_INFRA}, MAX(a.started_ms)
    FROM attempt a JOIN job j ON j.id = a.job_id
    WHERE a.outcome <> 3 AND j.commit_id IS NOT NULL
    GROUP BY 1, 2
"""  # noqa: S608 - constants of this module


def fill_statements() -> tuple[str, ...]:
    """The statements that make both tables of the attempts."""
    return (_FILL_DAYS, _FILL_ALL_BRANCHES, _FILL_COMMITS)


def upgrade() -> None:
    """Make the two tables of sums, and fill them."""
    op.create_table(
        "test_day",
        sa.Column("branch_id", _INT64, primary_key=True, autoincrement=False),
        sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("test_id", _INT64, primary_key=True, autoincrement=False),
        sa.Column("passed", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("infra", sa.Integer, nullable=False),
        sa.Column("duration_ms", _INT64, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "test_commit",
        sa.Column("commit_id", _INT64, primary_key=True, autoincrement=False),
        sa.Column("test_id", _INT64, primary_key=True, autoincrement=False),
        sa.Column("passed", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("infra", sa.Integer, nullable=False),
        sa.Column("last_ms", _INT64, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    mixed = sa.text("passed > 0 AND failed > 0")
    op.create_index(
        "test_commit_mixed",
        "test_commit",
        ["last_ms", "test_id"],
        sqlite_where=mixed,
        postgresql_where=mixed,
    )
    for statement in fill_statements():
        op.execute(statement)
