# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: connections and transactions, SQLite or PostgreSQL.

A write to SQLite begins with BEGIN IMMEDIATE and waits for its turn (busy_timeout). With a deferred
BEGIN a transaction that reads first and then writes fails at once if another one has written.
https://www.sqlite.org/isolation.html
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa

from ci_doctor.errors import CiDoctorError, InfraError, UsageError
from ci_doctor.history.address import DatabaseAddress

BUSY_S: Final = 60.0
_CACHE_KIB: Final = 65_536
_LOG_LIMIT: Final = 64 * 1024 * 1024
_BEGIN: Final = "ci_doctor_begin"
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
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(address.file)), poolclass=sa.pool.StaticPool
    )

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
    if isinstance(error.orig, sqlite3.OperationalError) and "readonly" in text:
        hint = "SQLite writes beside the file even to read it: copy it into a folder of yours"
        return UsageError(f"{name}: the file or its folder cannot be written", hint=hint)
    if _NO_DATABASE.search(text):
        hint = "createdb NAME makes it, then `ci-doctor history upgrade` its tables"
        return UsageError(f"{name}: there is no such database", hint=hint)
    if isinstance(error, sa.exc.OperationalError):
        hint = "the evidence files are still there: ingest them again later"
        return InfraError(f"{name}: {text}", hint=hint)
    return None
