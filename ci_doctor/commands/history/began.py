# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history began`."""

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
    "began",
    section="history",
    examples={
        "ci-doctor history began tests/test_serving.py::test_stream": "Name the commit with which a test began to fail.",
    },
)
@click.argument("name")
@window_options
@database_options
@pass_session
def began(
    session: Session,
    /,
    *,
    name: str,
    days: int | None,
    branch: str | None,
    database: str | None,
    config_path: Path | None,
) -> int:
    """Name the commit with which a test began to fail more often, as an interval of commits.

    The runs may be noisy: a change-point is looked for, and reported with its probability. Commits
    stand in the order of their first run. NAME is as in `history test`.
    """
    session.claim()
    settings, address = history_settings(config_path, database, days)

    from ci_doctor.history.database import branch_number
    from ci_doctor.history.one_test import attempts_of, began_facts, named_test
    from ci_doctor.history.outcomes import began_outcome

    window = window_of(settings, branch)
    with read_history(address) as connection:
        test_row = named_test(connection, name)
        number = branch_number(connection, branch)
        attempts = attempts_of(connection, test_row.number, window, number)
    return session.finish(began_outcome(began_facts(test_row, attempts)), on_stdout=True)
