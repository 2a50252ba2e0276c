# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor plugin`: what the Buildkite plugin's hooks call, a module for each hook."""

import click

from ci_doctor.commands.group import PackageGroup


class _PluginGroup(PackageGroup):
    package = __name__
    names = ("pre-command", "post-command", "pre-exit")


@click.group("plugin", cls=_PluginGroup, hidden=True)
def plugin() -> None:
    """Called by the hooks of the Buildkite plugin."""
