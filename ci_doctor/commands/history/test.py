# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history test`."""

from pathlib import Path

import click

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
    "test",
    section="history",
    examples={
        "ci-doctor history test test_stream": "Show the attempts of one test.",
    },
)
@click.argument("name")
@window_options
@database_options
@pass_session
def test(
    session: Session,
    /,
    *,
    name: str,
    days: int | None,
    branch: str | None,
    database: str | None,
    config_path: Path | None,
) -> int:
    """Show the attempts of one test: its rate, its causes, its agents, the newest attempts.

    NAME is `suite::name`, a pytest node id, or a part of either that only one test has.
    """
    session.claim()
    settings, address = history_settings(config_path, database, days)

    from ci_doctor.history.database import branch_number
    from ci_doctor.history.one_test import attempts_of, named_test, one_test_facts
    from ci_doctor.history.outcomes import one_test_outcome

    window = window_of(settings, branch)
    with read_history(address) as connection:
        test_row = named_test(connection, name)
        number = branch_number(connection, branch)
        attempts = attempts_of(connection, test_row.number, window, number)
    return session.finish(one_test_outcome(one_test_facts(test_row, attempts)), on_stdout=True)
