# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: its tables, connections, transactions, and conditions that several questions share."""

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.dialects import postgresql, sqlite

from ci_doctor.errors import CiDoctorError, InfraError, UsageError
from ci_doctor.history.address import DatabaseAddress

T = TypeVar("T")

# --- the tables, as the newest migration leaves them; times are UTC milliseconds since 1970 ---
# `attempt` is the evidence. `test_day` and `test_commit` are sums of it, kept by each write, so that
# no query of a command reads all attempts. `job` holds the sums of its own attempts.

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


# --- connections and transactions, SQLite or PostgreSQL ---
# A write to SQLite begins with BEGIN IMMEDIATE and waits for its turn (busy_timeout). With a deferred
# BEGIN a transaction that reads first and then writes fails at once if another one has written.
# https://www.sqlite.org/isolation.html

BUSY_S: Final = 60.0
_CACHE_KIB: Final = 65_536
_LOG_LIMIT: Final = 64 * 1024 * 1024
# The index of a write-ahead log takes 32 KiB at once.
_LOG_INDEX: Final = 32 * 1024
FREE_SPACE: Final = "free some space on that disk"
_BEGIN: Final = "ci_doctor_begin"
# insufficient_privilege, read_only_sql_transaction
# (https://www.postgresql.org/docs/current/errcodes-appendix.html).
_REFUSED: Final = frozenset({"42501", "25006"})
# PostgreSQL says it before there is a connection, so without an SQLSTATE.
_NO_DATABASE: Final = re.compile(r'FATAL: +database ".*" does not exist')


def make_engine(address: DatabaseAddress, busy_s: float = BUSY_S) -> sa.Engine:
    """An engine for `address`; it connects at the first use. busy_s: how long a lock is awaited."""
    if address.file is not None:
        return _sqlite(address, busy_s)
    return sa.create_engine(
        address.url or "",
        connect_args={"connect_timeout": max(2, round(busy_s))},
        pool_size=1,
        max_overflow=0,
    )


def _sqlite(address: DatabaseAddress, busy_s: float) -> sa.Engine:
    assert address.file is not None  # noqa: S101 - the caller looked
    url = sa.URL.create("sqlite", database=str(address.file))
    if _is_only_read(address.file):
        place = f"file:{quote(str(address.file.absolute()))}?mode=ro&immutable=1"
        engine = sa.create_engine(
            url,
            poolclass=sa.pool.StaticPool,
            creator=lambda: sqlite3.connect(place, uri=True, check_same_thread=False),
        )
    else:
        engine = sa.create_engine(url, poolclass=sa.pool.StaticPool)

    def set_up(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver begins no transaction of its own: `begin` does.
        connection.isolation_level = None
        # First: each of the next ones may have to wait for another process.
        connection.execute(f"PRAGMA busy_timeout = {round(busy_s * 1000)}")
        # In WAL mode a commit is whole after a crash; after a power loss the last ones may be missing.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT}")
        connection.execute("PRAGMA temp_store = MEMORY")

    def begin(connection: sa.Connection) -> None:
        kind = connection.get_execution_options().get(_BEGIN, "DEFERRED")
        connection.exec_driver_sql(f"BEGIN {kind}")

    sa.event.listen(engine, "connect", set_up)
    sa.event.listen(engine, "begin", begin)
    return engine


def _is_only_read(file: Path) -> bool:
    """Whether SQLite can read `file` only as one that nobody changes (`immutable`).

    To read a file with a write-ahead log, SQLite writes beside it, unless it may take the file for
    one that nobody changes (https://www.sqlite.org/wal.html#readonly). A log that is not empty
    holds newer rows: then this is not so.
    """
    if not file.exists() or os.access(file.parent, os.W_OK):
        return False
    log = file.with_name(f"{file.name}-wal")
    return not log.exists() or log.stat().st_size == 0


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that reads, and sees one state of the database. Raises as `writing` does."""
    with translated(engine.url), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: sa.Engine, *, exclusive: bool = False) -> Iterator[sa.Connection]:
    """A transaction that writes: all of it, or nothing if it raises or the process is killed.

    Raises UsageError for a file that is no database, InfraError if it cannot be reached.
    """
    kind = "EXCLUSIVE" if exclusive else "IMMEDIATE"
    with translated(engine.url), engine.connect() as plain:
        connection = plain.execution_options(**{_BEGIN: kind})
        with connection.begin():
            yield connection


@contextmanager
def translated(url: sa.URL) -> Iterator[None]:
    """What a driver raises in it, as `writing` raises it; a bug of ours stays as it is."""
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error) as error:
        origin = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        is_operational = isinstance(error, sa.exc.OperationalError | sqlite3.OperationalError)
        readable = _readable(url, origin, is_operational=is_operational)
        if readable is None:
            raise
        raise readable from error


def _readable(
    url: sa.URL, origin: BaseException | None, *, is_operational: bool
) -> CiDoctorError | None:
    """The error for the user; None for a bug of ours."""
    text = " ".join(str(origin).split())
    name = url.render_as_string(hide_password=True)
    if isinstance(origin, sqlite3.DatabaseError) and "not a database" in text:
        return UsageError(f"{name}: it is not a SQLite database", hint="name another --database")
    if isinstance(origin, sqlite3.DatabaseError) and "malformed" in text:
        hint = "move the file away, and ingest the evidence files into a new one"
        return InfraError(f"{name}: the file is damaged ({text})", hint=hint)
    if isinstance(origin, sqlite3.Error) and _is_full(origin, url.database):
        return InfraError(f"{name}: its disk is full ({text})", hint=FREE_SPACE)
    refused = _refusal(url.database, origin, text)
    if refused is not None:
        return UsageError(f"{name}: {refused[0]}", hint=refused[1])
    if is_operational:
        hint = "the evidence files are still there: ingest them again later"
        return InfraError(f"{name}: {text}", hint=hint)
    return None


def _is_full(error: sqlite3.Error, file: str | None) -> bool:
    """Whether the disk has no room for what SQLite writes: also for the index of a log (wal.html#walfile)."""
    # An error of the module itself has none.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    if code == sqlite3.SQLITE_FULL:
        return True
    if code & 0xFF != sqlite3.SQLITE_IOERR:
        return False
    try:
        return shutil.disk_usage(Path(file or "").parent).free < _LOG_INDEX
    except OSError:
        return False


def _refusal(
    database: str | None, origin: BaseException | None, text: str
) -> tuple[str, str] | None:
    """Why this process may not do what it wants with the database, and what to do; None if it may."""
    if isinstance(origin, sqlite3.OperationalError):
        if "readonly" in text:
            what = "the file or its folder cannot be written"
            return what, "write from a job that may, or name another --database"
        # A file with newer rows beside it, in a folder that cannot be written.
        file = Path(database or "")
        if file.with_name(f"{file.name}-wal").exists() and not os.access(file.parent, os.W_OK):
            what = "its folder cannot be written, and another process writes to the file"
            return (
                what,
                "SQLite reads such a file only if it may write beside it: copy it into a folder of yours",
            )
    if getattr(origin, "sqlstate", None) in _REFUSED:
        return text, "write from a job that may, or give this role the right"
    if _NO_DATABASE.search(text):
        hint = "createdb NAME makes it, then `ci-doctor history upgrade` its tables"
        return "there is no such database", hint
    return None


# --- `INSERT … ON CONFLICT`, which SQLite and PostgreSQL write alike ---

Insert = postgresql.Insert | sqlite.Insert


def insert_into(connection: sa.Connection, table: sa.Table) -> Insert:
    """An INSERT into `table` for the database of `connection`."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def adding(
    connection: sa.Connection, table: sa.Table, sums: Sequence[str], largest: Sequence[str] = ()
) -> Insert:
    """An INSERT that adds to the row of the same primary key.

    The columns `sums` are added up; of those in `largest` the larger value stays.
    """
    statement = insert_into(connection, table)
    new = statement.excluded
    values: dict[str, sa.ColumnElement[int]] = {}
    for name in sums:
        values[name] = table.c[name] + new[name]
    for name in largest:
        values[name] = sa.case((new[name] > table.c[name], new[name]), else_=table.c[name])
    return statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=values
    )


def insert_rows(
    connection: sa.Connection, statement: Insert, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Execute `statement` for all of `rows`, which have the same columns.

    SQLite takes them one after another. To PostgreSQL they go as an array for each column, in one
    statement: it needs a tenth of the time of as many statements.
    """
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        connection.execute(statement, rows)
        return
    table = statement.table
    names = list(rows[0])
    arrays = []
    for name in names:
        kind = postgresql.ARRAY(table.c[name].type)
        arrays.append(sa.func.unnest(sa.literal([row[name] for row in rows], kind)).label(name))
    connection.execute(statement.from_select(names, sa.select(*arrays)))


# --- which attempts a question is about: a time, and a branch ---


class HistoryWindow(Struct, frozen=True, kw_only=True):
    """From `since_ms` to `until_ms`, on `branch`; None stands for all branches."""

    since_ms: int
    until_ms: int
    branch: str | None = None

    @property
    def first_day(self) -> int:
        """Days since 1970 of its beginning."""
        return self.since_ms // DAY_MS

    @property
    def last_day(self) -> int:
        """Days since 1970 of its end."""
        return self.until_ms // DAY_MS


def last_days(days: int, now_ms: int, branch: str | None = None) -> HistoryWindow:
    """The last `days` days up to now, in whole days of UTC."""
    first = now_ms // DAY_MS - days + 1
    return HistoryWindow(since_ms=max(first, 0) * DAY_MS, until_ms=now_ms, branch=branch)


def branch_number(connection: sa.Connection, name: str | None) -> int:
    """The number of the branch `name`; ALL_BRANCHES for None. Raises UsageError for an unknown one."""
    if name is None:
        return ALL_BRANCHES
    number = connection.scalar(sa.select(BRANCH.c.id).where(BRANCH.c.name == name))
    if number is None:
        raise UsageError(
            f"no attempt of the history ran on the branch `{name}`",
            hint="leave --branch out to ask about all branches",
        )
    return int(number)


class Question:
    """What is asked: about the attempts in `window`, on its branch. Raises UsageError for an unknown branch."""

    def __init__(self, connection: sa.Connection, window: HistoryWindow) -> None:
        self.connection = connection
        self.window = window
        self.branch = branch_number(connection, window.branch)

    def jobs(self, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
        """These columns of the jobs in the window, whatever their branch."""
        return sa.select(*columns).where(
            JOB.c.started_ms.between(self.window.since_ms, self.window.until_ms)
        )

    def attempts(self, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
        """These columns of the attempts in the window, on the branch."""
        query = (
            sa.select(*columns)
            .select_from(ATTEMPT)
            .where(ATTEMPT.c.started_ms.between(self.window.since_ms, self.window.until_ms))
        )
        if self.branch == ALL_BRANCHES:
            return query
        of_branch = sa.select(JOB.c.id).where(JOB.c.branch_id == self.branch)
        return query.where(ATTEMPT.c.job_id.in_(of_branch))


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Of two columns each: below the 32,766 parameters of one statement in SQLite."""
    for start in range(0, len(values), 5_000):
        yield values[start : start + 5_000]
