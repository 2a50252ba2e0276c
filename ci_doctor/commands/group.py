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
        # Completion is asked in the middle of a word.
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        word = args[0]
        is_unknown = self.get_command(ctx, word) is None
        # An unknown option stays click's: it knows the nearest one.
        if is_unknown and not word.startswith("-"):
            hint = did_you_mean(word, self.list_commands(ctx))
            raise UsageError(f"{ctx.command_path}: no such command `{word}`", hint=hint)
        return super().resolve_command(ctx, args)
