# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: connections and transactions, SQLite or PostgreSQL.

A write to SQLite begins with BEGIN IMMEDIATE and waits for its turn (busy_timeout). With a deferred
BEGIN a transaction that reads first and then writes fails at once if another one has written.
https://www.sqlite.org/isolation.html
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa

from ci_doctor.errors import CiDoctorError, InfraError, UsageError
from ci_doctor.history.address import DatabaseAddress

BUSY_S: Final = 60.0
_CACHE_KIB: Final = 65_536
_LOG_LIMIT: Final = 64 * 1024 * 1024
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
    with _translated(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: sa.Engine, *, exclusive: bool = False) -> Iterator[sa.Connection]:
    """A transaction that writes: all of it, or nothing if it raises or the process is killed.

    Raises UsageError for a file that is no database, InfraError if it cannot be reached.
    """
    kind = "EXCLUSIVE" if exclusive else "IMMEDIATE"
    with _translated(engine), engine.connect() as plain:
        connection = plain.execution_options(**{_BEGIN: kind})
        with connection.begin():
            yield connection


@contextmanager
def _translated(engine: sa.Engine) -> Iterator[None]:
    try:
        yield
    except sa.exc.DBAPIError as error:
        readable = _readable(engine, error)
        if readable is None:
            raise
        raise readable from error


def _readable(engine: sa.Engine, error: sa.exc.DBAPIError) -> CiDoctorError | None:
    """The error for the user; None for a bug of ours."""
    text = " ".join(str(error.orig).split())
    name = engine.url.render_as_string(hide_password=True)
    if isinstance(error.orig, sqlite3.DatabaseError) and "not a database" in text:
        return UsageError(f"{name}: it is not a SQLite database", hint="name another --database")
    if isinstance(error.orig, sqlite3.DatabaseError) and "malformed" in text:
        hint = "move the file away, and ingest the evidence files into a new one"
        return InfraError(f"{name}: the file is damaged ({text})", hint=hint)
    refused = _refusal(engine, error, text)
    if refused is not None:
        return refused
    if _NO_DATABASE.search(text):
        hint = "createdb NAME makes it, then `ci-doctor history upgrade` its tables"
        return UsageError(f"{name}: there is no such database", hint=hint)
    if isinstance(error, sa.exc.OperationalError):
        hint = "the evidence files are still there: ingest them again later"
        return InfraError(f"{name}: {text}", hint=hint)
    return None


def _refusal(engine: sa.Engine, error: sa.exc.DBAPIError, text: str) -> UsageError | None:
    """The error if this process may not do what it wants with the database."""
    name = engine.url.render_as_string(hide_password=True)
    if isinstance(error.orig, sqlite3.OperationalError) and "readonly" in text:
        hint = "write from a job that may, or name another --database"
        return UsageError(f"{name}: the file or its folder cannot be written", hint=hint)
    if isinstance(error.orig, sqlite3.OperationalError) and _has_a_log(engine.url.database):
        hint = "SQLite reads such a file only if it may write beside it: copy it into a folder of yours"
        return UsageError(
            f"{name}: its folder cannot be written, and another process writes to the file",
            hint=hint,
        )
    if getattr(error.orig, "sqlstate", None) in _REFUSED:
        hint = "write from a job that may, or give this role the right"
        return UsageError(f"{name}: {text}", hint=hint)
    return None


def _has_a_log(database: str | None) -> bool:
    """Whether this is a SQLite file with newer rows beside it, in a folder that cannot be written."""
    if database is None:
        return False
    file = Path(database)
    return file.with_name(f"{file.name}-wal").exists() and not os.access(file.parent, os.W_OK)
