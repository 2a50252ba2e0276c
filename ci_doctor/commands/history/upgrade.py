# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history upgrade`."""

from pathlib import Path

from ci_doctor.commands.documented import command
from ci_doctor.commands.history.options import database_options, history_settings
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session


@command(
    "upgrade",
    section="history",
    examples={
        "ci-doctor history upgrade --database postgresql://ci@db.example/history": "Make or upgrade the schema of a PostgreSQL database.",
    },
)
@database_options
@pass_session
def upgrade(session: Session, /, *, database: str | None, config_path: Path | None) -> int:
    """Bring the schema of the database to this version of ci-doctor.

    A SQLite file is upgraded by every command, after a copy was made beside it. A PostgreSQL
    database is upgraded, and made, by this command alone.
    """
    session.claim()
    _, address = history_settings(config_path, database)

    from ci_doctor.history.database import BUSY_S
    from ci_doctor.history.outcomes import upgrade_outcome
    from ci_doctor.history.upkeep import upgrade as upgraded

    change = upgraded(address, busy_s=BUSY_S)
    return session.finish(upgrade_outcome(change, address.label), on_stdout=True)
