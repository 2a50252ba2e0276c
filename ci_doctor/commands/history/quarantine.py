# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history quarantine`: `suggest`."""

from pathlib import Path

import click

from ci_doctor.commands.documented import option
from ci_doctor.commands.group import Group
from ci_doctor.commands.history.options import (
    database_options,
    history_settings,
    read_history,
    window_of,
    window_options,
)
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session


@click.group(
    "quarantine",
    examples={
        "ci-doctor history quarantine suggest": "Print entries for ci-doctor-quarantine.toml.",
    },
    cls=Group,
)
def quarantine() -> None:
    """Suggest which tests are to run without deciding."""


@quarantine.command(
    "suggest",
    section="history",
    examples={
        "ci-doctor history quarantine suggest --for-days 7": "Print entries that end in a week.",
    },
)
@option(
    "--for-days",
    type=click.IntRange(min=1),
    default=14,
    help="After how many days the entries end. [default: 14]",
)
@window_options
@database_options
@pass_session
def suggest(
    session: Session,
    /,
    *,
    for_days: int,
    days: int | None,
    branch: str | None,
    database: str | None,
    config_path: Path | None,
) -> int:
    """Print entries for ci-doctor-quarantine.toml; no file is changed.

    An entry is suggested for each test that passed and failed on two commits or more, and is
    neither deleted, nor mended, nor broken by a commit that `history began` names.
    """
    session.claim()
    settings, address = history_settings(config_path, database, days)

    from ci_doctor.history.flaky import flaky_facts
    from ci_doctor.history.outcomes import quarantine_outcome
    from ci_doctor.history.quarantine import suggested

    window = window_of(settings, branch)
    with read_history(address) as connection:
        flaky = flaky_facts(connection, window).flaky
        facts = suggested(connection, flaky, window, days=for_days)
    return session.finish(quarantine_outcome(facts), on_stdout=True)
