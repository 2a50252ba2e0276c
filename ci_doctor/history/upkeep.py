# SPDX-License-Identifier: Apache-2.0
"""Acts on a database: brings its schema to this version, and removes attempts before a day."""

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.history.address import NEWEST, DatabaseAddress
from ci_doctor.history.database import (
    ATTEMPT,
    DAY_MS,
    FREE_SPACE,
    JOB,
    METADATA,
    TEST_COMMIT,
    TEST_DAY,
    make_engine,
    reading,
    translated,
    writing,
)

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory


# --- brings its schema to this version, or refuses it ---
# A SQLite file is made by whoever opens it. PostgreSQL is shared by a team, so only `history upgrade` changes it. A schema newer than this ci-doctor is refused.

_VERSION_TABLE: Final = "alembic_version"
_UPDATE: Final = "update ci-doctor: a newer one has written to this database"
# Any number of ours: PostgreSQL's advisory locks have no names.
_ADVISORY_LOCK: Final = 0x6369_646F_6374_6F72


def scripts() -> "ScriptDirectory":
    """All migrations. Only a database of another version needs them, and they cost 0.2 s."""
    from alembic.script import ScriptDirectory

    folder = str(Path(__file__).with_name("migrations"))
    return ScriptDirectory(folder, version_locations=[folder])


def open_database(address: DatabaseAddress, *, busy_s: float) -> sa.Engine:
    """An engine for a database of the newest schema; a SQLite file is made or migrated for it.

    Raises UsageError for a newer schema, for one of PostgreSQL that is older, and for a database of
    something else; InfraError if it cannot be reached.
    """
    if address.file is not None:
        _prepare_file(address, busy_s)
        return make_engine(address, busy_s)
    engine = make_engine(address, busy_s)
    try:
        with reading(engine) as connection:
            before = _version(connection, address)
    except BaseException:
        engine.dispose()
        raise
    if before != NEWEST:
        engine.dispose()
        raise UsageError(
            f"{address.label}: its schema is {before or 'not made yet'}; this ci-doctor needs {NEWEST}",
            hint="ci-doctor history upgrade --database URL",
        )
    return engine


def upgrade(address: DatabaseAddress, *, busy_s: float) -> str | None:
    """Bring the schema to the newest version, under a lock; its version before, None if there was none.

    Raises as `open_database` does.
    """
    if address.file is not None:
        return _prepare_file(address, busy_s)
    engine = make_engine(address, busy_s)
    try:
        with writing(engine) as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
            before = _version(connection, address)
            _migrate(connection, before)
    finally:
        engine.dispose()
    return before


def _prepare_file(address: DatabaseAddress, busy_s: float) -> str | None:
    assert address.file is not None  # noqa: S101 - the caller looked
    if address.file.is_dir():
        raise UsageError(f"{address.file} is a folder", hint="name a file as --database")
    engine = make_engine(address, busy_s)
    try:
        if address.file.exists() and address.file.stat().st_size:
            with reading(engine) as connection:
                before = _version(connection, address)
            if before == NEWEST:
                return before
    finally:
        engine.dispose()
    try:
        # Another ci-doctor may have migrated it before us.
        with _alone(address.file):
            with reading(engine) as connection:
                before = _version(connection, address)
            if before is None:
                # Write-ahead logging, which lets others read while one writes; the file keeps it.
                with (
                    translated(engine.url),
                    closing(sqlite3.connect(address.file, isolation_level=None)) as plain,
                ):
                    plain.execute("PRAGMA journal_mode = WAL")
            with writing(engine, exclusive=True) as connection:
                _migrate(connection, before)
    finally:
        engine.dispose()
    return before


def _version(connection: sa.Connection, address: DatabaseAddress) -> str | None:
    """The schema's version; None for an empty database. Raises UsageError."""
    tables = set(sa.inspect(connection).get_table_names())
    version: str | None = None
    if _VERSION_TABLE in tables:
        version = connection.scalar(sa.text(f"SELECT version_num FROM {_VERSION_TABLE}"))  # noqa: S608 - a constant
    if version == NEWEST:
        return NEWEST
    if version is None:
        foreign = tables - {_VERSION_TABLE}
        if address.file is None:
            # A database of PostgreSQL may well hold what others need.
            foreign &= set(METADATA.tables)
        if foreign:
            raise UsageError(
                f"{address.label}: it holds a table `{min(foreign)}` that is not ours",
                hint="name another --database",
            )
        return None
    known = {script.revision for script in scripts().walk_revisions()}
    if version not in known:
        raise UsageError(
            f"{address.label}: its schema is {version}; this ci-doctor knows {NEWEST} at most",
            hint=_UPDATE,
        )
    return version


def _migrate(connection: sa.Connection, before: str | None) -> None:
    if before == NEWEST:
        return
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    directory = scripts()
    context = MigrationContext.configure(connection)
    steps = list(directory.iterate_revisions(NEWEST, before or "base"))
    with Operations.context(context):
        for step in reversed(steps):
            step.module.upgrade()
    context.stamp(directory, NEWEST)


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Hold flock(2) on the file, which SQLite's own locks do not see; other migrations wait."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        message = f"cannot open {file}: {error.strerror}"
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise InfraError(message, hint=FREE_SPACE) from error
        is_absent = error.errno in {errno.ENOENT, errno.ENOTDIR}
        where = "in a folder that exists" if is_absent else "that this process may write"
        raise UsageError(message, hint=f"name a file {where}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Only now: closing any descriptor of a file ends all POSIX locks of this process on it.
        os.close(descriptor)


# --- removes attempts before a day, and makes the sums true again ---
# The hashes of their files stay: a folder that is ingested again must not bring them back.


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
        for job in kept:
            query = sa.select(_count(0), _count(1, 2), _count(4)).where(ATTEMPT.c.job_id == job)
            passed, failed, infra = connection.execute(query).one()
            values = {"passed": passed, "failed": failed, "infra": infra}
            connection.execute(sa.update(JOB).where(JOB.c.id == job).values(values))
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
