# SPDX-License-Identifier: Apache-2.0
"""Reads the command line and the configuration: what the commands below `cache` share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ci_doctor.commands.documented import TIME, VERDICT, option
from ci_doctor.commands.options import config_option, output_options

CACHES = "Caches"
TRUST = "Trust"
_STORE_GROUP = "Store"


F = TypeVar("F", bound=Callable[..., Any])

_STORE = option(
    "--store",
    group=_STORE_GROUP,
    metavar="DIR|URL",
    help="A directory, or s3://bucket/prefix, gs://…, az://…. [default: that of [cache]]",
)
_FAMILIES = option(
    "--family",
    "families",
    group=CACHES,
    multiple=True,
    metavar="NAME[=DIR]",
    help="A kind of cache, and its directory if it is not the library's own. Repeatable. "
    "[default: those of [cache], else all that are known]",
)
_BUDGET = option(
    "--budget",
    group=TIME,
    metavar="TIME",
    help="The most that the whole command takes. [default: 60s]",
)
_STRICT = option(
    "--strict",
    group=VERDICT,
    is_flag=True,
    default=None,
    help="A problem with a cache decides the exit code. [default: it is a warning, and 0]",
)
_PYTHON = option(
    "--python",
    group=CACHES,
    metavar="PY",
    help="The interpreter of the job, whose packages are facts of the identity. "
    "[default: python3 on PATH]",
)
SIGNERS_OPTION = option(
    "--allowed-signers",
    group=TRUST,
    metavar="FILE",
    help="The accepted signers, in the format of ssh-keygen(1).",
)
TRUST_OPTION = option(
    "--trust",
    group=TRUST,
    type=click.Choice(["signed", "local", "any"]),
    help="Whose caches are restored. They are executed. signed: those of an accepted signer; local: also "
    "unsigned ones from a directory that this user alone can write; any: all. [default: local]",
)
LOG_OPTION = option(
    "--log",
    group=CACHES,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The job's log, in which libraries report on their caches.",
)


def cache_options(function: F) -> F:
    """What every command has that looks at cache directories."""
    for each in (_PYTHON, _FAMILIES):
        function = each(function)
    return config_option(output_options(function))


def store_options(function: F) -> F:
    """What every command has that uses a store."""
    for each in (_STRICT, _BUDGET, _STORE):
        function = each(function)
    return function
