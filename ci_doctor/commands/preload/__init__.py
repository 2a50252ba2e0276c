# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload`: a module for each command below it."""

import click

from ci_doctor.commands.group import PackageGroup


class _PreloadGroup(PackageGroup):
    package = __name__
    names = ("plan", "install", "status", "verify", "remove")


@click.group(
    "preload",
    examples={
        "ci-doctor preload install --preset vllm --venv .venv": "Install the shims of a preset.",
        "ci-doctor preload verify --venv .venv": "Show that they work.",
    },
    cls=_PreloadGroup,
)
def preload() -> None:
    """Manage shims: each imports a module before a background thread can race for it."""
