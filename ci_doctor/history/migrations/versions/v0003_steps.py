# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: the sums by commit are kept for each step, made anew of the attempts."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FILL_COMMITS = """
    INSERT INTO test_commit (commit_id, test_id, step, passed, failed, infra, last_ms)
    SELECT j.commit_id, a.test_id, COALESCE(j.step, ''),
           COUNT(CASE WHEN a.outcome = 0 THEN 1 END),
           COUNT(CASE WHEN a.outcome IN (1, 2) THEN 1 END),
           COUNT(CASE WHEN a.outcome = 4 THEN 1 END), MAX(a.started_ms)
    FROM attempt a JOIN job j ON j.id = a.job_id
    WHERE a.outcome <> 3 AND j.commit_id IS NOT NULL
    GROUP BY 1, 2, 3
"""


def upgrade() -> None:
    """Make the table of sums by commit again, with the step in its key, and fill it."""
    op.drop_table("test_commit")
    op.create_table(
        "test_commit",
        sa.Column("commit_id", _INT64, primary_key=True, autoincrement=False),
        sa.Column("test_id", _INT64, primary_key=True, autoincrement=False),
        sa.Column("step", sa.Text, primary_key=True),
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
    op.execute(FILL_COMMITS)
