# SPDX-License-Identifier: Apache-2.0
"""A group of commands that names the nearest one to a mistyped word."""

import click

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean


class Group(click.Group):
    """As click's, but an unknown command is an error of ours, with a hint."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError for a word that is no command."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise UsageError(
                f"{ctx.command_path}: no such command `{args[0]}`",
                hint=did_you_mean(args[0], self.list_commands(ctx)),
            )
        return super().resolve_command(ctx, args)
