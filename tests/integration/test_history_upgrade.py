# SPDX-License-Identifier: Apache-2.0
"""The schema of a shared PostgreSQL with attempts in it is brought to this version, and they count as before."""

import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations

from ci_doctor.errors import UsageError
from ci_doctor.history.address import database_address
from ci_doctor.history.engine import make_engine, reading, writing
from ci_doctor.history.flaky import flaky_facts
from ci_doctor.history.migration import open_database, upgrade
from ci_doctor.history.migrations.versions import v0001_evidence, v0002_sums
from ci_doctor.history.schema import METADATA, NEWEST, TEST_COMMIT
from tests.support.histories import WHOLE
from tests.support.postgres import NEEDS_POSTGRES, postgres

pytestmark = [pytest.mark.integration, pytest.mark.nightly, NEEDS_POSTGRES]
# Test 1 passes in one step and fails in the other one; test 2 does both in one step.
ROWS = """
INSERT INTO test (id, suite, name) VALUES (1, 's', 'of a matrix'), (2, 's', 'flaky');
INSERT INTO commits (id, sha) VALUES (1, 'abc');
INSERT INTO job (id, key, step, commit_id, started_ms, passed, failed, infra) VALUES
    (1, 'a', 'cpu', 1, 5, 2, 0, 0), (2, 'b', 'gpu', 1, 6, 0, 1, 0), (3, 'c', 'cpu', 1, 7, 0, 1, 0);
INSERT INTO attempt (test_id, started_ms, source_id, number, job_id, outcome) VALUES
    (1, 5, 1, 1, 1, 0), (2, 5, 1, 1, 1, 0), (1, 6, 2, 1, 2, 1), (2, 7, 3, 1, 3, 1);
"""


def make_second_version(url: str) -> None:
    """A history as schema 0002 left it: its sums by commit have no steps."""
    engine = make_engine(database_address(url), 60)
    with writing(engine) as connection:
        with Operations.context(MigrationContext.configure(connection)):
            v0001_evidence.upgrade()
            connection.exec_driver_sql(ROWS)
            v0002_sums.upgrade()
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('0002')")
    engine.dispose()


def test_attempts_of_a_shared_database_count_by_step_after_the_upgrade() -> None:
    # A short path: that of a socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with postgres(Path(folder) / "s") as url:
            make_second_version(url)
            address = database_address(url)
            with pytest.raises(UsageError, match="its schema is 0002"):
                open_database(address, busy_s=60)

            changes = [upgrade(address, busy_s=60) for _ in range(2)]

            engine = open_database(address, busy_s=60)
            with reading(engine) as connection:
                differences = compare_metadata(MigrationContext.configure(connection), METADATA)
                rows = sorted(tuple(row) for row in connection.execute(sa.select(TEST_COMMIT)))
                flaky = flaky_facts(connection, WHOLE).flaky
            engine.dispose()
    assert [(each.before, each.after) for each in changes] == [("0002", NEWEST), (NEWEST, NEWEST)]
    assert differences == []
    assert rows == [(1, 1, "cpu", 1, 0, 0, 5), (1, 1, "gpu", 0, 1, 0, 6), (1, 2, "cpu", 1, 1, 0, 7)]
    assert [each.name for each in flaky] == ["flaky"]
