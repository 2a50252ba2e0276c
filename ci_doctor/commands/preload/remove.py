# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload remove`."""

from pathlib import Path

from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import (
    config_option,
    dry_run_option,
    output_options,
    pass_session,
)
from ci_doctor.commands.preload.options import interpreters_of, settings_of, target_options
from ci_doctor.session.session import Session


@command(
    "remove",
    section="setup-env",
    examples={
        "ci-doctor preload remove --venv .venv --trigger vllm": "Remove one rule.",
    },
)
@target_options
@option("--trigger", group="Rules", metavar="NAME", help="Remove only the rule with this trigger.")
@config_option
@dry_run_option
@output_options
@pass_session
def remove(
    session: Session,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    trigger: str | None,
    config_path: Path | None,
    dry_run: bool,
) -> int:
    """Remove the shim, and nothing that ci-doctor did not write."""
    from ci_doctor.preload import install as change

    session.claim()
    targets = interpreters_of(settings_of(session, config_path, pythons, venvs))
    outcome = change.remove(targets, trigger=trigger, dry_run=dry_run)
    return session.finish(outcome, on_stdout=outcome.error is None)
