# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload verify`."""

from pathlib import Path

import click

from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.commands.preload.options import interpreters_of, settings_of, target_options
from ci_doctor.session.session import Session


@command(
    "verify",
    section="setup-env",
    examples={
        "ci-doctor preload verify --venv .venv": "Show the race lost without the shim, and won with it.",
    },
    exits={
        0: "proven, or no longer needed",
        1: "the shim fails",
        86: "nothing is proven",
    },
)
@target_options
@option(
    "--runs",
    group="Runs",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Runs of each race, with and without the shim.",
)
@config_option
@output_options
@pass_session
def verify(
    session: Session,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    runs: int,
    config_path: Path | None,
) -> int:
    """Prove that the shim is armed, and wins a race lost without it.

    A stub stands in for the trigger, so neither a GPU nor the trigger's package is needed.
    """
    from ci_doctor.commands.telling.line import LineKind
    from ci_doctor.commands.telling.steps import StepSource
    from ci_doctor.commands.telling.teller import Teller
    from ci_doctor.preload.verify import verify as verify_shims

    session.claim()
    targets = interpreters_of(settings_of(session, config_path, pythons, venvs))
    with Teller(StepSource(LineKind.STATUS), group="ci-doctor preload verify: runs") as tell:
        outcome = verify_shims(targets, runs=runs, tell=tell)
    return session.finish(outcome, on_stdout=outcome.error is None)
