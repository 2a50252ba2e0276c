import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.history.address import DatabaseAddress
from ci_doctor.history.database import METADATA, NEWEST, reading, writing
from ci_doctor.history.upkeep import open_database, scripts, upgrade


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

    ran = subprocess.run(
        [sys.executable, "-c", program, file], capture_output=True, text=True, check=True
    )

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
