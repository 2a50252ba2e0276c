"""The SQL that the page of the history shows in place of commands for sums by day and by cause."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from ci_doctor.history.address import DatabaseAddress
from ci_doctor.history.database import writing
from ci_doctor.history.upkeep import open_database

ROOT = Path(__file__).parents[3]
ROWS = """
INSERT INTO cause (id, fingerprint, title) VALUES (1, 'f', 'out of memory');
INSERT INTO job (id, key, cause_id, started_ms, duration_ms, passed, failed, infra)
    VALUES (1, 'a', 1, 0, 7200000, 0, 2, 0);
INSERT INTO test_day (branch_id, day, test_id, passed, failed, infra, duration_ms)
    VALUES (-1, 20000, 1, 3, 1, 0, 5), (7, 20000, 1, 3, 1, 0, 5), (-1, 20000, 2, 4, 0, 1, 5);
"""


def test_the_questions_of_the_page_are_answered(tmp_path: Path) -> None:
    file = tmp_path / "h.sqlite"
    engine = open_database(DatabaseAddress(file=file), busy_s=10)
    with writing(engine) as connection:
        for statement in ROWS.split(";"):
            connection.execute(sa.text(statement)) if statement.strip() else None
    engine.dispose()
    page = (ROOT / "docs/history.md").read_text()

    by_day, by_cause = re.findall(r'sqlite3 ci-doctor-history\.sqlite "(SELECT[^"]*)"', page)

    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute(by_day).fetchall() == [("2024-10-04", 7, 1, 1)]
        assert connection.execute(by_cause).fetchall() == [("out of memory", 1, 2.0)]
