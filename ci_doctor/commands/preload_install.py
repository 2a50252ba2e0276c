# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload install`, and `ci-doctor preload plan`, which says what it would do."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.delivery import claim
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import config_option, dry_run_option, output_options
from ci_doctor.commands.preload_options import (
    pythons_meant,
    rule_options,
    rules_meant,
    settings_of,
    target_options,
)

if TYPE_CHECKING:
    from ci_doctor.environment.settings import SetupEnvSettings

_replace = click.option(
    "--replace", is_flag=True, help="Arm only these rules, instead of adding them."
)


@click.command("plan")
@rule_options
@target_options
@_replace
@config_option
@output_options
@legacy
def plan(
    invocation: Invocation,
    more_rules: tuple[str, ...],
    presets: tuple[str, ...],
    rules: tuple[str, ...],
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    replace: bool,
    config_path: Path | None,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """Print what `install` would do, file by file in each interpreter; change nothing.

    A RULE is TRIGGER=MODULE[:ATTR,ATTR][;MODULE...], or the name of a preset; without any, those of
    `preload` in [setup-env]. A child of each interpreter imports the modules to preload once, to
    check the effect.
    """
    settings = settings_of(config_path, pythons, venvs, (*presets, *rules, *more_rules))
    return _install(invocation, settings, presets, replace=replace, dry_run=True, as_json=as_json)


@click.command("install")
@rule_options
@target_options
@_replace
@config_option
@dry_run_option
@output_options
@legacy
def install(
    invocation: Invocation,
    more_rules: tuple[str, ...],
    presets: tuple[str, ...],
    rules: tuple[str, ...],
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    replace: bool,
    config_path: Path | None,
    dry_run: bool,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - as above
) -> int:
    """Install a shim with the rules in each interpreter, or in none if one is refused.

    A RULE is TRIGGER=MODULE[:ATTR,ATTR][;MODULE...], or the name of a preset; without any, those of
    `preload` in [setup-env]. They are added to the armed rules. A second identical call changes
    nothing.
    """
    settings = settings_of(config_path, pythons, venvs, (*presets, *rules, *more_rules))
    return _install(
        invocation, settings, presets, replace=replace, dry_run=dry_run, as_json=as_json
    )


def _install(
    invocation: Invocation,
    settings: "SetupEnvSettings",
    presets: tuple[str, ...],
    *,
    replace: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    from ci_doctor.commands.preload_output import report_results
    from ci_doctor.preload.install import install_each

    wanted = rules_meant(settings, presets)
    targets = pythons_meant(settings)
    claim(invocation.report_directory)
    results = install_each(targets, wanted, dry_run=dry_run, replace=replace)
    return report_results(
        invocation, results, done="wrote", would="would write", dry_run=dry_run, as_json=as_json
    )
