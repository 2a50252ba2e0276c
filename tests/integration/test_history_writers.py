# SPDX-License-Identifier: Apache-2.0
"""Four processes write to one history, and some are killed: no row is lost, doubled or half there."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ci_doctor.history.address import database_address
from ci_doctor.history.database import ATTEMPT, JOB, SOURCE, TEST_COMMIT, TEST_DAY, reading, writing
from ci_doctor.history.upkeep import open_database, upgrade
from ci_doctor.history.writing import EvidenceWriter
from tests.support.cli import ROOT, environment
from tests.support.histories import SUMS_OF_ATTEMPTS, numbered_run
from tests.support.postgres import NEEDS_POSTGRES, postgres

pytestmark = pytest.mark.integration

FILES = 20
WRITERS = 4
OF_EACH = 10  # each file is written by two of the four
KILLED = (1,)
PROGRAM = ROOT / "tests" / "support" / "programs" / "write_history.py"


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=[NEEDS_POSTGRES, pytest.mark.nightly])]
)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        # Not made yet: the four make it, too.
        yield str(tmp_path / "h.sqlite")
        return
    # A short path: that of a socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with postgres(Path(folder) / "s") as url:
            upgrade(database_address(url), busy_s=60)
            yield url


def begin(database: str, writer: int) -> subprocess.Popen[str]:
    first = writer * (FILES // WRITERS)
    words = [sys.executable, str(PROGRAM), database, str(first), str(OF_EACH)]
    return subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_no_row_is_lost_doubled_or_half_there(database: str) -> None:
    writers = [begin(database, writer) for writer in range(WRITERS)]
    for number in KILLED:
        lines = writers[number].stdout
        assert lines is not None
        lines.readline()
        writers[number].kill()
    ended = [writer.communicate(timeout=120) for writer in writers]

    survivors = [each for number, each in enumerate(writers) if number not in KILLED]
    assert [each.returncode for each in survivors] == [0] * len(survivors), ended
    assert [err for _, err in ended] == [""] * WRITERS
    engine = open_database(database_address(database), busy_s=60)
    with reading(engine) as connection:
        assert half_written(connection) == 0
        told = {int(line) for out, _ in ended for line in out.splitlines()}
        assert count(connection, SOURCE) >= len(told)
    last = FILES // WRITERS * (WRITERS - 1) + OF_EACH
    EvidenceWriter(engine).write([numbered_run(number) for number in range(last)], 0)
    with writing(engine) as connection:
        assert count(connection, SOURCE) == last
        assert count(connection, ATTEMPT) == 10 * last
        assert count(connection, JOB) == (last + 1) // 2
        assert half_written(connection) == 0
        kept = sums(connection)
        for table in (TEST_DAY, TEST_COMMIT):
            connection.execute(sa.delete(table))
        for statement in SUMS_OF_ATTEMPTS:
            connection.execute(sa.text(statement))
        assert kept == sums(connection)
    engine.dispose()


def count(connection: sa.Connection, table: sa.Table) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def half_written(connection: sa.Connection) -> int:
    """Files with another number of attempts than they hold."""
    own = sa.select(sa.func.count()).where(ATTEMPT.c.source_id == SOURCE.c.id).scalar_subquery()
    query = sa.select(sa.func.count()).select_from(SOURCE).where(SOURCE.c.attempts != own)
    return connection.scalar(query) or 0


def sums(connection: sa.Connection) -> list[list[tuple[object, ...]]]:
    return [
        sorted(tuple(row) for row in connection.execute(sa.select(table)))
        for table in (TEST_DAY, TEST_COMMIT)
    ]
