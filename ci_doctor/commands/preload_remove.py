# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload remove`."""

from pathlib import Path

import click

from ci_doctor.commands.delivery import claim
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import config_option, dry_run_option, output_options
from ci_doctor.commands.preload_options import pythons_meant, settings_of, target_options


@click.command("remove")
@target_options
@click.option("--trigger", metavar="NAME", help="Remove only the rule with this trigger.")
@config_option
@dry_run_option
@output_options
@legacy
def remove(
    invocation: Invocation,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    trigger: str | None,
    config_path: Path | None,
    dry_run: bool,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """Remove the shim and restore the site directory."""
    from ci_doctor.commands.preload_output import report_results
    from ci_doctor.preload.install import remove_each

    targets = pythons_meant(settings_of(config_path, pythons, venvs))
    claim(invocation.report_directory)
    results = remove_each(targets, dry_run=dry_run, trigger=trigger)
    done, would = ("changed", "would change") if trigger else ("removed", "would remove")
    return report_results(
        invocation, results, done=done, would=would, dry_run=dry_run, as_json=as_json
    )
