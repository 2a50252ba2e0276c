# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor preload`: a module for each command below it."""

from importlib import import_module

import click

from ci_doctor.commands.group import Group

_NAMES = ("plan", "install", "status", "verify", "remove", "audit")


class _PreloadGroup(Group):
    """The commands below, each loaded when it is typed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names."""
        return list(_NAMES)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in _NAMES:
            return None
        module = import_module(f"ci_doctor.commands.preload.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group("preload", cls=_PreloadGroup)
def preload() -> None:
    """Manage shims: each imports a module before a background thread can race for it."""
