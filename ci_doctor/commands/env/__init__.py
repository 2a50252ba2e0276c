# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor env`: a module for each command below it."""

import click

from ci_doctor.commands.group import PackageGroup


class _EnvGroup(PackageGroup):
    package = __name__
    names = ("snapshot", "diff")


@click.group(
    "env",
    examples={
        "ci-doctor env snapshot -o green.json": "Record this machine.",
        "ci-doctor env diff green.json red.json": "Name what changed.",
    },
    cls=_EnvGroup,
)
def env() -> None:
    """Record what may decide a result, and name what changed."""
