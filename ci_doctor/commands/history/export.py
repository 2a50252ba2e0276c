# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history export`."""

from pathlib import Path

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.history.options import (
    database_options,
    history_settings,
    read_history,
    window_of,
    window_options,
)
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session


@command(
    "export",
    section="history",
    examples={
        "ci-doctor history export --parquet attempts.parquet --days 90": "Write the attempts of three months.",
    },
)
@option(
    "--parquet",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    shell_complete=values.files,
    help="The file to write.",
)
@window_options
@database_options
@pass_session
def export(
    session: Session,
    /,
    *,
    parquet: Path,
    days: int | None,
    branch: str | None,
    database: str | None,
    config_path: Path | None,
) -> int:
    """Write the attempts to a Parquet file, a row each, for DuckDB, ClickHouse or pandas."""
    session.claim()
    settings, address = history_settings(config_path, database, days)

    from ci_doctor.history.extra import require_extra

    require_extra("parquet")
    from ci_doctor.history.export import export_parquet
    from ci_doctor.history.outcomes.stored import export_outcome

    with read_history(address) as connection:
        written = export_parquet(connection, window_of(settings, branch), parquet)
    return session.finish(export_outcome(written, str(parquet), address.label), on_stdout=True)
