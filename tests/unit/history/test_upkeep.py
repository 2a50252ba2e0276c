# SPDX-License-Identifier: Apache-2.0

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.history.address import NEWEST, DatabaseAddress
from ci_doctor.history.database import (
    ATTEMPT,
    JOB,
    METADATA,
    SOURCE,
    TEST_COMMIT,
    TEST_DAY,
    reading,
    writing,
)
from ci_doctor.history.upkeep import open_database, prune, scripts, upgrade
from ci_doctor.history.writing import EvidenceWriter
from tests.support.cli import python_program
from tests.support.histories import BEGIN_MS, DAY_MS, F, P, engine_of, run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "h.sqlite"


def test_the_migrations_make_the_tables_of_the_schema(file: Path) -> None:
    engine = open_database(DatabaseAddress(file=file), busy_s=10)
    with reading(engine) as connection:
        context = MigrationContext.configure(connection)
        differences = compare_metadata(context, METADATA)
    engine.dispose()

    assert differences == []


def test_the_newest_version_is_that_of_the_last_migration() -> None:
    assert scripts().get_current_head() == NEWEST


def test_a_current_file_is_opened_without_the_migrations(file: Path) -> None:
    open_database(DatabaseAddress(file=file), busy_s=10).dispose()
    program = (
        "import sys; from pathlib import Path\n"
        "from ci_doctor.history.address import DatabaseAddress\n"
        "from ci_doctor.history.upkeep import open_database\n"
        "open_database(DatabaseAddress(file=Path(sys.argv[1])), busy_s=10).dispose()\n"
        "print('alembic' in sys.modules)\n"
    )

    ran = python_program(program, file)

    assert ran.stdout == "False\n"


def test_a_newer_schema_is_refused_and_left_alone(file: Path) -> None:
    upgrade(DatabaseAddress(file=file), busy_s=10)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(UsageError, match="its schema is 9999") as caught:
        open_database(DatabaseAddress(file=file), busy_s=10)

    assert caught.value.hint is not None
    assert "update ci-doctor" in caught.value.hint


def test_a_database_of_something_else_is_refused(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE job (id)")

    with pytest.raises(UsageError, match="not ours"):
        open_database(DatabaseAddress(file=file), busy_s=10)


def test_a_file_that_is_no_database_is_refused_and_left_alone(file: Path) -> None:
    file.write_text("my notes, which are long enough to be no header of SQLite" * 10)

    with pytest.raises(UsageError, match="not a SQLite database"):
        open_database(DatabaseAddress(file=file), busy_s=10)

    assert file.read_text().startswith("my notes")


def test_a_sqlite_file_of_another_program_gets_no_table_of_ours(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE users (name TEXT)")
    before = file.read_bytes()

    with pytest.raises(UsageError, match="`users`"):
        open_database(DatabaseAddress(file=file), busy_s=1)

    assert file.read_bytes() == before


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        open_database(DatabaseAddress(file=tmp_path), busy_s=1)


def test_a_file_that_was_cut_off_is_named_as_damaged(file: Path) -> None:
    open_database(DatabaseAddress(file=file), busy_s=1).dispose()
    file.write_bytes(file.read_bytes()[:8192])

    with pytest.raises(InfraError, match="damaged"):
        open_database(DatabaseAddress(file=file), busy_s=1)


def test_a_file_that_cannot_be_written_asks_for_no_other_try(file: Path) -> None:
    engine = open_database(DatabaseAddress(file=file), busy_s=1)
    with reading(engine) as connection:
        connection.exec_driver_sql("PRAGMA query_only = 1")

    with pytest.raises(UsageError, match="cannot be written"), writing(engine) as connection:
        connection.exec_driver_sql("DELETE FROM test")

    engine.dispose()


OLD = run([("x", F), ("x", P)], at=1, commit="a")
NEW = run([("x", P)], at=30, commit="a", agent="gpu-2")
FIRST_DAY = BEGIN_MS // DAY_MS + 1
SUMS = (ATTEMPT, TEST_DAY, TEST_COMMIT, JOB)


def counts(engine: sa.Engine) -> list[int]:
    with reading(engine) as connection:
        return [
            connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0 for table in SUMS
        ]


def test_what_stays_is_as_if_the_rest_had_never_come(tmp_path: Path) -> None:
    with engine_of(tmp_path / "both.sqlite") as engine:
        EvidenceWriter(engine).write([OLD, NEW], 0)
        removed = prune(engine, FIRST_DAY)
        left = counts(engine)
        with reading(engine) as connection:
            commit = connection.execute(sa.select(TEST_COMMIT.c.passed, TEST_COMMIT.c.failed)).one()
            sources = connection.scalar(sa.select(sa.func.count()).select_from(SOURCE))
    with engine_of(tmp_path / "one.sqlite") as engine:
        EvidenceWriter(engine).write([NEW], 0)
        alone = counts(engine)

    assert removed == 2
    assert left == alone
    assert tuple(commit) == (1, 0)
    assert sources == 2


def test_a_pruned_file_does_not_come_back(tmp_path: Path) -> None:
    with engine_of(tmp_path / "h.sqlite") as engine:
        EvidenceWriter(engine).write([OLD], 0)
        prune(engine, FIRST_DAY)
        written = EvidenceWriter(engine).write([OLD], 0)

        assert (written.attempts, counts(engine)[0]) == (0, 0)


def test_a_file_that_cannot_be_made_smaller_says_that_the_attempts_are_gone(tmp_path: Path) -> None:
    file = tmp_path / "h.sqlite"
    with engine_of(file) as engine:
        EvidenceWriter(engine).write([OLD, NEW], 0)
    engine = open_database(DatabaseAddress(file=file), busy_s=0)
    other = sqlite3.connect(file, isolation_level=None)

    def write_next(*_: object) -> None:
        other.execute("BEGIN IMMEDIATE")

    sa.event.listen(engine, "checkin", write_next, once=True)

    with closing(other), pytest.raises(InfraError, match="attempts are removed"):
        prune(engine, FIRST_DAY)

    assert counts(engine)[0] == 1
    engine.dispose()
