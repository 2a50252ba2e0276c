# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor env`: a module for each command below it."""

from importlib import import_module

import click

from ci_doctor.commands.group import Group

_NAMES = ("snapshot", "diff")


class _EnvGroup(Group):
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
        module = import_module(f"ci_doctor.commands.env.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group("env", cls=_EnvGroup)
def env() -> None:
    """Record what may decide a result, and name what changed."""
