# SPDX-License-Identifier: Apache-2.0
"""Reads the command line: the options that the commands below `ci-doctor preload` share."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import option
from ci_doctor.commands.environment_settings import read_settings
from ci_doctor.commands.options import PYTHON_OPTION, VENV_OPTION
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.environment.settings import SetupEnvSettings
    from ci_doctor.preload.interpreter import Interpreters
_RULES = "Rules"


F = TypeVar("F", bound=Callable[..., Any])


def target_options(function: F) -> F:
    """`--python` and `--venv`."""
    for each in (VENV_OPTION, PYTHON_OPTION):
        function = each(function)
    return function


def rule_options(function: F) -> F:
    """`--preset`, `--rule`, the rules as arguments, `--replace` and `--force`."""
    for each in (
        option(
            "--force",
            group=_RULES,
            is_flag=True,
            help="Take presets that are not for the installed version, too.",
        ),
        option(
            "--replace",
            group=_RULES,
            is_flag=True,
            help="Arm only these rules, instead of adding them.",
        ),
        option(
            "--rule",
            "rules",
            group=_RULES,
            multiple=True,
            metavar="TRIGGER=MODULE[:ATTR,ATTR]",
            help="Import MODULE before TRIGGER. Repeatable.",
        ),
        option(
            "--preset",
            "presets",
            group=_RULES,
            multiple=True,
            metavar="NAME",
            shell_complete=values.presets,
            callback=_require_names,
            help="Rules by name: vllm. Repeatable.",
        ),
        click.argument("more_rules", nargs=-1, metavar="[RULE]...", shell_complete=values.presets),
    ):
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
    settings = read_settings(session, config_path, os.environ, flags, keeps_missing=True)
    if pythons or venvs:
        return replace(settings, pythons=named["pythons"], venvs=named["venvs"])
    return settings


def interpreters_of(settings: "SetupEnvSettings") -> "Interpreters":
    """The interpreters that the settings name."""
    from ci_doctor.preload.interpreter import Interpreters

    return Interpreters(pythons=settings.pythons, venvs=settings.venvs, projects=settings.projects)


def _require_names(
    _context: click.Context, _option: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        if "=" in name:
            message = f"--preset {name}: this is a rule, not a name"
            raise UsageError(message, hint=f"write --rule '{name}'")
    return names
