# SPDX-License-Identifier: Apache-2.0
"""Groups of commands: they name the nearest one to a mistyped word, and load it when it is typed."""

from importlib import import_module
from typing import ClassVar

import click

from ci_doctor.commands.documented import Documented, DocumentedCommand
from ci_doctor.commands.forgotten_quotes import quotes_hint
from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.session.session import Session


class Group(Documented, click.Group):
    """As click's, but documented, and an unknown command is an error of ours, with a hint."""

    command_class = DocumentedCommand

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each with its whole first sentence."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, first_sentence(each)) for name, each in named if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

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
            raise _unknown(ctx, self, word)
        return super().resolve_command(ctx, args)


def first_sentence(shown: click.Command) -> str:
    """What a command does, as a list of commands says it."""
    paragraph = (shown.help or "").partition("\n\n")[0]
    text = " ".join(paragraph.split())
    sentence, stop, _ = text.partition(". ")
    return f"{sentence}." if stop else text


class PackageGroup(Group):
    """A group whose commands are modules of `package`, each with a command of the module's name.

    `names` stand in the order of the help. A hyphen in a name is an underscore in the module's.
    """

    package: ClassVar[str]
    names: ClassVar[tuple[str, ...]]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names."""
        return list(self.names)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in self.names:
            return None
        name = cmd_name.replace("-", "_")
        module = import_module(f"{self.package}.{name}")
        command: click.Command = getattr(module, name)
        return command


def _unknown(ctx: click.Context, group: click.Group, word: str) -> UsageError:
    """The error about a word that is no command; it may be a part of an option's value."""
    session = ctx.find_object(Session)
    if session is not None and ctx.parent is not None:
        quotes = quotes_hint(session.invocation.argv, group)
        if quotes is not None:
            return UsageError(f"{ctx.command_path}: `{word}` belongs to no option", hint=quotes)
    hint = did_you_mean(word, group.list_commands(ctx))
    return UsageError(f"{ctx.command_path}: no such command `{word}`", hint=hint)
