import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from ci_doctor.errors import InfraError
from ci_doctor.history.address import DatabaseAddress
from ci_doctor.history.database import ATTEMPT, JOB, SOURCE, TEST_COMMIT, TEST_DAY, reading
from ci_doctor.history.upkeep import open_database, prune
from ci_doctor.history.writing import EvidenceWriter
from tests.support.histories import BEGIN_MS, DAY_MS, F, P, engine_of, run

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
