# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history cost`."""

from pathlib import Path

from ci_doctor.commands.documented import command
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
    "cost",
    section="history",
    examples={
        "ci-doctor history cost --days 7": "Show what causes cost in the last week.",
    },
)
@window_options
@database_options
@pass_session
def cost(
    session: Session,
    /,
    *,
    days: int | None,
    branch: str | None,
    database: str | None,
    config_path: Path | None,
) -> int:
    """Show the time and the GPU hours that each cause cost.

    Jobs count with their whole time, failed attempts of tests with their own. GPU hours are that
    time times the GPUs of the machine.
    """
    session.claim()
    settings, address = history_settings(config_path, database, days)

    from ci_doctor.history.cost import cost_facts
    from ci_doctor.history.outcomes.cost import cost_outcome

    with read_history(address) as connection:
        facts = cost_facts(connection, window_of(settings, branch))
    return session.finish(cost_outcome(facts), on_stdout=True)
