# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history trend`."""

from pathlib import Path

import click

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

_DAYS = {"day": 1, "week": 7}


@command(
    "trend",
    section="history",
    examples={
        "ci-doctor history trend --by day --days 14": "Show two weeks, day by day.",
    },
)
@option(
    "--by",
    type=click.Choice(list(_DAYS)),
    default="week",
    help="The length of a period. [default: week]",
)
@window_options
@database_options
@pass_session
def trend(
    session: Session,
    /,
    *,
    by: str,
    days: int | None,
    branch: str | None,
    database: str | None,
    config_path: Path | None,
) -> int:
    """Show passes and failures by week or by day, in UTC."""
    session.claim()
    settings, address = history_settings(config_path, database, days)

    from ci_doctor.history.outcomes.trend import trend_outcome
    from ci_doctor.history.trend import trend_facts

    with read_history(address) as connection:
        facts = trend_facts(connection, window_of(settings, branch), days=_DAYS[by])
    return session.finish(trend_outcome(facts), on_stdout=True)
