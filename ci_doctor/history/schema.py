# SPDX-License-Identifier: Apache-2.0
"""Pure. The tables, as the newest migration leaves them; times are UTC milliseconds since 1970.

`attempt` is the evidence. `test_day` and `test_commit` are sums of it, kept by each write, so that
no query of a command reads all attempts. `job` holds the sums of its own attempts.
"""

from typing import Any, Final

import sqlalchemy as sa

# The last migration; a constant, so that a current database is known without loading Alembic.
NEWEST: Final = "0001"
METADATA: Final = sa.MetaData()
_INT64: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# One B-tree by primary key, and no second one by row number: half the size.
_CLUSTERED: Final[dict[str, Any]] = {"sqlite_with_rowid": False, "sqlite_strict": True}
_STRICT: Final[dict[str, Any]] = {"sqlite_strict": True}

SOURCE: Final = sa.Table(
    "source",
    METADATA,
    sa.Column("id", _INT64, primary_key=True),
    sa.Column("sha256", sa.Text, nullable=False, unique=True),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("form", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("ingested_ms", _INT64, nullable=False),
    **_STRICT,
)
COMMITS: Final = sa.Table(
    "commits",
    METADATA,
    sa.Column("id", _INT64, primary_key=True),
    sa.Column("sha", sa.Text, nullable=False, unique=True),
    **_STRICT,
)
BRANCH: Final = sa.Table(
    "branch",
    METADATA,
    sa.Column("id", _INT64, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    **_STRICT,
)
CAUSE: Final = sa.Table(
    "cause",
    METADATA,
    sa.Column("id", _INT64, primary_key=True),
    sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("class", sa.Text),
    **_STRICT,
)
TEST: Final = sa.Table(
    "test",
    METADATA,
    sa.Column("id", _INT64, primary_key=True),
    sa.Column("suite", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.UniqueConstraint("suite", "name"),
    **_STRICT,
)
JOB: Final = sa.Table(
    "job",
    METADATA,
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
    sa.Index("job_by_time", "started_ms"),
    sa.Index("job_by_cause", "cause_id", "started_ms"),
    sa.Index("job_by_commit", "commit_id"),
    **_STRICT,
)
ATTEMPT: Final = sa.Table(
    "attempt",
    METADATA,
    sa.Column("test_id", _INT64, primary_key=True, autoincrement=False),
    sa.Column("started_ms", _INT64, primary_key=True, autoincrement=False),
    sa.Column("source_id", _INT64, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("job_id", _INT64, nullable=False),
    sa.Column("outcome", sa.SmallInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
    sa.Column("duration_ms", _INT64),
    sa.Column("cause_id", _INT64),
    **_CLUSTERED,
)
_RED: Final = sa.text("outcome IN (1, 2, 4)")
sa.Index(
    "attempt_red",
    ATTEMPT.c.job_id,
    ATTEMPT.c.test_id,
    ATTEMPT.c.outcome,
    ATTEMPT.c.cause_id,
    ATTEMPT.c.duration_ms,
    sqlite_where=_RED,
    postgresql_where=_RED,
)


def _sums() -> tuple[sa.Column[Any], ...]:
    return tuple(
        sa.Column(name, sa.Integer, nullable=False) for name in ("passed", "failed", "infra")
    )


TEST_DAY: Final = sa.Table(
    "test_day",
    METADATA,
    # A part of the key cannot be null: 0 stands for an unknown branch, -1 for all of them together.
    sa.Column("branch_id", _INT64, primary_key=True, autoincrement=False),
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("test_id", _INT64, primary_key=True, autoincrement=False),
    *_sums(),
    sa.Column("duration_ms", _INT64, nullable=False),
    **_CLUSTERED,
)
TEST_COMMIT: Final = sa.Table(
    "test_commit",
    METADATA,
    sa.Column("commit_id", _INT64, primary_key=True, autoincrement=False),
    sa.Column("test_id", _INT64, primary_key=True, autoincrement=False),
    # An empty text stands for an unknown step.
    sa.Column("step", sa.Text, primary_key=True),
    *_sums(),
    sa.Column("last_ms", _INT64, nullable=False),
    **_CLUSTERED,
)
_MIXED: Final = sa.text("passed > 0 AND failed > 0")
sa.Index(
    "test_commit_mixed",
    TEST_COMMIT.c.last_ms,
    TEST_COMMIT.c.test_id,
    sqlite_where=_MIXED,
    postgresql_where=_MIXED,
)
DAY_MS: Final = 86_400_000
UNKNOWN_BRANCH: Final = 0
ALL_BRANCHES: Final = -1
UNKNOWN_STEP: Final = ""
