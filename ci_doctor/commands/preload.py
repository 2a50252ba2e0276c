# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload`, and the commands below it."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from ci_doctor.commands.documented import (
    INTERPRETERS,
    PYTHON_OPTION,
    VENV_OPTION,
    Group,
    config_option,
    dry_run_option,
    option,
    output_options,
    pass_session,
)
from ci_doctor.commands.setup_env import read_job_settings
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.environment.determinism import SetupEnvSettings
    from ci_doctor.preload.interpreter import Interpreters


@click.group(
    "preload",
    examples={
        "ci-doctor preload install vllm --venv .venv": "Install the shims of a preset.",
        "ci-doctor preload verify --venv .venv": "Show that they work.",
    },
    cls=Group,
)
def preload() -> None:
    """Manage shims: each imports a module before a background thread can race for it."""


_RULES = "Rules"


F = TypeVar("F", bound=Callable[..., Any])


def target_options(function: F) -> F:
    """`--python` and `--venv`."""
    for each in (VENV_OPTION, PYTHON_OPTION):
        function = each(function)
    return function


def settings_of(
    session: Session,
    config_path: Path | None,
    pythons: Sequence[str],
    venvs: Sequence[str],
    rules: Sequence[str] = (),
) -> "SetupEnvSettings":
    """`[setup-env]`, with what the command line gives instead.

    Interpreters on the command line replace all of the file's, of both kinds.
    """
    named = {"pythons": tuple(pythons), "venvs": tuple(venvs)}
    flags = {**named, "preload": tuple(rules)}
    settings, _ = read_job_settings(session, config_path, os.environ, flags, keeps_missing=True)
    if pythons or venvs:
        return replace(settings, pythons=named["pythons"], venvs=named["venvs"])
    return settings


def interpreters_of(settings: "SetupEnvSettings") -> "Interpreters":
    """The interpreters that the settings name."""
    from ci_doctor.preload.interpreter import Interpreters

    return Interpreters(pythons=settings.pythons, venvs=settings.venvs, projects=settings.projects)


@preload.command(
    "install",
    section="setup-env",
    examples={
        "ci-doctor preload install vllm --venv .venv": "Install the shims of a preset.",
        "ci-doctor preload install --dry-run --venv .venv": "Show what would be installed, file by file.",
        "ci-doctor preload install --rule vllm=transformers:GenerationConfig --python python3": "Install a rule of your own.",
    },
    exits={
        0: "installed, or there already",
        1: "a rule cannot be proven or armed in an interpreter",
        2: "an interpreter or a rule is refused, or a directory cannot be written",
        75: "an interpreter does not answer",
    },
)
@click.argument(
    "more_rules",
    nargs=-1,
    metavar="[RULE]...",
)
@option(
    "--rule",
    "rules",
    group=_RULES,
    multiple=True,
    metavar="TRIGGER=MODULE[:ATTR,ATTR]",
    help="Import MODULE before TRIGGER. Repeatable.",
)
@option(
    "--replace",
    group=_RULES,
    is_flag=True,
    help="Arm only these rules, instead of adding them.",
)
@target_options
@config_option
@dry_run_option
@output_options
@pass_session
def install(
    session: Session,
    more_rules: tuple[str, ...],
    rules: tuple[str, ...],
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    replace: bool,
    config_path: Path | None,
    dry_run: bool,
) -> int:
    """Install a shim with the rules in each interpreter, or in none if one is refused.

    A RULE is TRIGGER=MODULE[:ATTR,ATTR][;MODULE...], or the name of a preset; without any, those of
    `preload` in [setup-env]. They are added to the armed rules. A child of each interpreter imports
    the modules to preload once, to check the effect. A second identical call changes nothing.
    """
    from ci_doctor.preload.install import install as install_rules

    session.claim()
    settings = settings_of(session, config_path, pythons, venvs, (*rules, *more_rules))
    targets = interpreters_of(settings)
    outcome = install_rules(targets, settings.preload, replace=replace, dry_run=dry_run)
    return session.finish(outcome, on_stdout=outcome.error is None)


@preload.command(
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
    from ci_doctor.preload.verify import status as status_of

    session.claim()
    outcome = status_of(interpreters_of(settings_of(session, config_path, pythons, venvs)))
    return session.finish(outcome, on_stdout=outcome.error is None)


@preload.command(
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
    from ci_doctor.commands.teller import Teller
    from ci_doctor.preload.verify import verify as verify_shims

    session.claim()
    targets = interpreters_of(settings_of(session, config_path, pythons, venvs))
    with Teller(group="ci-doctor preload verify: runs") as tell:
        outcome = verify_shims(targets, runs=runs, tell=tell)
    return session.finish(outcome, on_stdout=outcome.error is None)


@preload.command(
    "remove",
    section="setup-env",
    examples={
        "ci-doctor preload remove --venv .venv --trigger vllm": "Remove one rule.",
        "ci-doctor preload remove --all": "Remove every shim of this machine.",
    },
)
@target_options
@option(
    "--all",
    "everywhere",
    group=INTERPRETERS,
    is_flag=True,
    help="Look for shims: on PATH, below this directory, and where this user installed one.",
)
@option("--trigger", group="Rules", metavar="NAME", help="Remove only the rule with this trigger.")
@config_option
@dry_run_option
@output_options
@pass_session
def remove(
    session: Session,
    pythons: tuple[str, ...],
    venvs: tuple[str, ...],
    everywhere: bool,
    trigger: str | None,
    config_path: Path | None,
    dry_run: bool,
) -> int:
    """Remove the shim, and nothing that ci-doctor did not write."""
    from ci_doctor.preload.install import remove as remove_rules

    session.claim()
    targets = interpreters_of(settings_of(session, config_path, pythons, venvs))
    outcome = remove_rules(targets, everywhere=everywhere, trigger=trigger, dry_run=dry_run)
    return session.finish(outcome, on_stdout=outcome.error is None)
