# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history prune`."""

from pathlib import Path

import click

from ci_doctor.commands.documented import command, option
from ci_doctor.commands.history.options import (
    database_options,
    history_settings,
    opened,
    require_existing,
)
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session


@command(
    "prune",
    section="history",
    examples={
        "ci-doctor history prune --keep-days 180": "Keep half a year.",
    },
)
@option(
    "--keep-days",
    type=click.IntRange(min=1),
    required=True,
    help="How many days up to today, in UTC, stay.",
)
@database_options
@pass_session
def prune(
    session: Session, /, *, keep_days: int, database: str | None, config_path: Path | None
) -> int:
    """Remove the attempts of earlier days, and make the file smaller.

    The evidence files are not touched. Their hashes stay known, so ingesting them again does not
    bring the attempts back.
    """
    session.claim()
    _, address = history_settings(config_path, database)

    from ci_doctor.history.database import last_days
    from ci_doctor.history.evidence import utc_text
    from ci_doctor.history.outcomes import prune_outcome
    from ci_doctor.history.upkeep import prune as pruned
    from ci_doctor.system import clock

    require_existing(address)
    window = last_days(keep_days, round(clock.epoch() * 1000))
    with opened(address) as engine:
        removed = pruned(engine, window.first_day)
    day = utc_text(window.since_ms)[:10]
    return session.finish(prune_outcome(removed, day, address.label), on_stdout=True)
