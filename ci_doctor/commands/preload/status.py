# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload status`."""

from pathlib import Path

from ci_doctor.commands.documented import command
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.commands.preload.options import interpreters_of, settings_of, target_options
from ci_doctor.session.session import Session


@command(
    "status",
    section="setup-env",
    examples={
        "ci-doctor preload status --venv .venv": "Show the shims of one environment.",
    },
)
@target_options
@config_option
@output_options
@pass_session
def status(
    session: Session,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    config_path: Path | None,
) -> int:
    """Print installed shims, whether they are unchanged, and what else runs at every start."""
    from ci_doctor.preload.status import status as status_of

    session.claim()
    outcome = status_of(interpreters_of(settings_of(session, config_path, pythons, venvs)))
    return session.finish(outcome, on_stdout=outcome.error is None)
