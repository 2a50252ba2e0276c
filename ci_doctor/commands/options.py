# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, each declared once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def output_options(function: F) -> F:
    """`--json` and `--report-dir`: every command has them."""
    for option in (
        click.option(
            "--report-dir",
            type=click.Path(path_type=Path, file_okay=False),
            help="Write report.json, report.md and junit.xml here. [default: a folder in $CI_DOCTOR_REPORT_DIR, if set]",
        ),
        click.option(
            "--json",
            "as_json",
            is_flag=True,
            help="Print the report as JSON on stdout; all other output goes to stderr.",
        ),
    ):
        function = option(function)
    return function


def config_option(function: F) -> F:
    """`--config`."""
    return click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Configuration file. [default: ci-doctor.toml or pyproject.toml, here or above]",
    )(function)


def dry_run_option(function: F) -> F:
    """`--dry-run`."""
    return click.option(
        "--dry-run", is_flag=True, help="Print the planned actions; change nothing."
    )(function)


def environment_options(function: F) -> F:
    """What `setup-env` and `run` prepare."""
    for option in (
        click.option(
            "--allow-fallback",
            is_flag=True,
            default=None,
            help="Pin even if a shallow clone hides the real version.",
        ),
        click.option(
            "--preload",
            multiple=True,
            metavar="RULE",
            help="Import a module before a trigger: TRIGGER=MODULE[:ATTR,ATTR], or the name of "
            "a preset (vllm). Installs a shim; with `run` it applies to CMD alone. Repeatable.",
        ),
        click.option(
            "--determinism",
            type=click.Choice(["off", "default", "strict"]),
            help="Determinism profile. [default: default]",
        ),
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
        click.option(
            "--project",
            "projects",
            multiple=True,
            metavar="DIR",
            help="Project to pin. Repeatable. [default: .]",
        ),
    ):
        function = option(function)
    return function
