# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history flaky`."""

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
    "flaky",
    section="history",
    examples={
        "ci-doctor history flaky --days 14 --branch main": "List the flaky tests of a branch.",
    },
)
@window_options
@database_options
@pass_session
def flaky(
    session: Session,
    /,
    *,
    days: int | None,
    branch: str | None,
    database: str | None,
    config_path: Path | None,
) -> int:
    """List the flaky tests, the surest first.

    A test is proven flaky if it passed and failed on one commit. One that changed its result three
    times or more is listed, too. Failures in an hour of an agent in which far more failed than
    usual count as infrastructure.
    """
    session.claim()
    settings, address = history_settings(config_path, database, days)

    from ci_doctor.history.flaky import flaky_facts
    from ci_doctor.history.outcomes import flaky_outcome

    with read_history(address) as connection:
        facts = flaky_facts(connection, window_of(settings, branch))
    return session.finish(flaky_outcome(facts), on_stdout=True)
