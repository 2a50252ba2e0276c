# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: the first schema, what evidence files say and its sums by day and by commit."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_INT64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "source",
        sa.Column("id", _INT64, primary_key=True),
        sa.Column("sha256", sa.Text, nullable=False, unique=True),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("form", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("ingested_ms", _INT64, nullable=False),
        sqlite_strict=True,
    )
    _create_names()
    _create_job()
    op.create_table(
        "attempt",
        sa.Column("test_id", _INT64, primary_key=True, autoincrement=False),
        sa.Column("started_ms", _INT64, primary_key=True, autoincrement=False),
        sa.Column("source_id", _INT64, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("job_id", _INT64, nullable=False),
        sa.Column(
            "outcome", sa.SmallInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("duration_ms", _INT64),
        sa.Column("cause_id", _INT64),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    red = sa.text("outcome IN (1, 2, 4)")
    op.create_index(
        "attempt_red",
        "attempt",
        ["job_id", "test_id", "outcome", "cause_id", "duration_ms"],
        sqlite_where=red,
        postgresql_where=red,
    )
    _create_sums()


def _create_names() -> None:
    op.create_table(
        "commits",
        sa.Column("id", _INT64, primary_key=True),
        sa.Column("sha", sa.Text, nullable=False, unique=True),
        sqlite_strict=True,
    )
    op.create_table(
        "branch",
        sa.Column("id", _INT64, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sqlite_strict=True,
    )
    op.create_table(
        "cause",
        sa.Column("id", _INT64, primary_key=True),
        sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("class", sa.Text),
        sqlite_strict=True,
    )
    op.create_table(
        "test",
        sa.Column("id", _INT64, primary_key=True),
        sa.Column("suite", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.UniqueConstraint("suite", "name"),
        sqlite_strict=True,
    )


def _create_job() -> None:
    op.create_table(
        "job",
        sa.Column("id", _INT64, primary_key=True),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("pipeline", sa.Text),
        sa.Column("build", _INT64),
        sa.Column("step", sa.Text),
        sa.Column("branch_id", _INT64),
        sa.Column("commit_id", _INT64),
        sa.Column("agent", sa.Text),
        sa.Column("queue", sa.Text),
        sa.Column("gpus", sa.Integer),
        sa.Column("cause_id", _INT64),
        sa.Column("started_ms", _INT64, nullable=False),
        sa.Column("duration_ms", _INT64),
        sa.Column("passed", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("infra", sa.Integer, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("job_by_time", "job", ["started_ms"])
    op.create_index("job_by_cause", "job", ["cause_id", "started_ms"])
    op.create_index("job_by_commit", "job", ["commit_id"])


def _create_sums() -> None:
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
