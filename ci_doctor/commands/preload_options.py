# SPDX-License-Identifier: Apache-2.0
"""What the commands below `ci-doctor preload` share: options, the rules meant, the interpreters meant."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ci_doctor.errors import UsageError

if TYPE_CHECKING:
    from ci_doctor.environment.settings import SetupEnvSettings
    from ci_doctor.preload.preload_rule import PreloadRule
    from ci_doctor.preload.result import Refused

_Words = tuple[tuple[str, ...], tuple[str, ...]]  # of --python and of --venv
F = TypeVar("F", bound=Callable[..., Any])


def target_options(function: F) -> F:
    """`--python` and `--venv`."""
    for option in (
        click.option(
            "--venv",
            "venvs",
            multiple=True,
            metavar="DIR",
            help="Target virtual environment. Repeatable.",
        ),
        click.option(
            "--python",
            "pythons",
            multiple=True,
            metavar="PY",
            help="Target interpreter. Repeatable.",
        ),
    ):
        function = option(function)
    return function


def rule_options(function: F) -> F:
    """`--preset`, `--rule` and the rules as arguments."""
    for option in (
        click.option(
            "--rule",
            "rules",
            multiple=True,
            metavar="TRIGGER=MODULE[:ATTR,ATTR]",
            help="Import MODULE before TRIGGER. Repeatable.",
        ),
        click.option(
            "--preset",
            "presets",
            multiple=True,
            metavar="NAME",
            help="Rules by name: vllm. Repeatable.",
        ),
        click.argument("more_rules", nargs=-1, metavar="[RULE]..."),
    ):
        function = option(function)
    return function


def settings_of(
    config_path: Path | None,
    pythons: Sequence[str],
    venvs: Sequence[str],
    rules: Sequence[str] = (),
) -> "SetupEnvSettings":
    """`[setup-env]`, with what the command line gave instead: interpreters named there replace all of the file's."""
    from ci_doctor.commands.preparation import read_settings

    named = {"pythons": tuple(pythons), "venvs": tuple(venvs)}
    settings = read_settings(config_path, os.environ, {**named, "preload": tuple(rules)})
    if pythons or venvs:
        from msgspec.structs import replace

        return replace(settings, pythons=named["pythons"], venvs=named["venvs"])
    return settings


def rules_meant(settings: "SetupEnvSettings", presets: Sequence[str]) -> "tuple[PreloadRule, ...]":
    """The rules of the settings. Raises UsageError where there are none, or where a preset given by name is a rule."""
    from ci_doctor.preload.presets import require_rules

    for name in presets:
        if "=" in name:
            raise UsageError(
                f"--preset {name}: this is a rule, not a name", hint=f"write --rule '{name}'"
            )
    return require_rules(settings.preload)


def pythons_meant(settings: "SetupEnvSettings") -> "list[Path | Refused]":
    """The interpreters of the settings, else the job's; one that does not exist is refused, and the others still told."""
    from ci_doctor.environment.targets import choose_targets
    from ci_doctor.preload.result import Refused

    named: list[_Words] = [
        *(((word,), ()) for word in settings.pythons),
        *(((), (word,)) for word in settings.venvs),
    ]
    found: list[Path | Refused] = []
    for pythons, venvs in named or [((), ())]:
        try:
            chosen = choose_targets(
                pythons, venvs, [Path(project) for project in settings.projects], os.environ
            )
        except UsageError as error:
            if not named:
                raise
            found.append(Refused(python=Path(*pythons, *venvs), error=error))
        else:
            found += [target.python for target in chosen]
    if not found:
        raise UsageError("no interpreter found", hint="name one: --venv DIR or --python PY")
    return found
