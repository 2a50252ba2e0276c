# SPDX-License-Identifier: Apache-2.0
"""Reads the command line and the configuration: what the commands below `cache` share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_doctor.commands.options import config_option, output_options

F = TypeVar("F", bound=Callable[..., Any])

_STORE = click.option(
    "--store",
    metavar="DIR|URL",
    help="A directory, or s3://bucket/prefix, gs://…, az://…. [default: that of [cache]]",
)
_FAMILIES = click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME[=DIR]",
    help="A kind of cache, and its directory if it is not the library's own. Repeatable. "
    "[default: those of [cache], else all that are known]",
)
_BUDGET = click.option(
    "--budget",
    metavar="TIME",
    help="The most that the whole command takes. [default: 60s]",
)
_STRICT = click.option(
    "--strict",
    is_flag=True,
    default=None,
    help="A problem with a cache decides the exit code. [default: it is a warning, and 0]",
)
_PYTHON = click.option(
    "--python",
    metavar="PY",
    help="The interpreter of the job, whose packages are facts of the identity. "
    "[default: python3 on PATH]",
)
SIGNERS_OPTION = click.option(
    "--allowed-signers",
    metavar="FILE",
    help="Whose signatures count, in the format of ssh-keygen(1).",
)
TRUST_OPTION = click.option(
    "--trust",
    type=click.Choice(["signed", "local", "any"]),
    help="What is restored is executed: only what an allowed signer has signed, also unsigned "
    "caches from a directory that this user alone can write, or anything. [default: local]",
)
LOG_OPTION = click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The job's log: what libraries say there of their caches counts.",
)


def cache_options(function: F) -> F:
    """What every command has that looks at cache directories."""
    for option in (_PYTHON, _FAMILIES):
        function = option(function)
    return config_option(output_options(function))


def store_options(function: F) -> F:
    """What every command has that uses a store."""
    for option in (_STRICT, _BUDGET, _STORE):
        function = option(function)
    return function
