# SPDX-License-Identifier: Apache-2.0
"""The schema of a shared PostgreSQL."""

import tempfile
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ci_doctor.errors import UsageError
from ci_doctor.history.address import database_address
from ci_doctor.history.database import METADATA, NEWEST, reading
from ci_doctor.history.upkeep import open_database, upgrade
from tests.support.postgres import NEEDS_POSTGRES, postgres

pytestmark = [pytest.mark.integration, pytest.mark.nightly, NEEDS_POSTGRES]


def test_a_shared_database_is_made_by_upgrade_and_by_nothing_else() -> None:
    # A short path: that of a socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with postgres(Path(folder) / "s") as url:
            address = database_address(url)
            with pytest.raises(UsageError, match="not made yet"):
                open_database(address, busy_s=60)

            changes = [upgrade(address, busy_s=60) for _ in range(2)]

            engine = open_database(address, busy_s=60)
            with reading(engine) as connection:
                differences = compare_metadata(MigrationContext.configure(connection), METADATA)
            engine.dispose()
    assert changes == [None, NEWEST]
    assert differences == []
