# SPDX-License-Identifier: Apache-2.0
"""Commands and options that carry their documentation: `--help`, manual and reference are made of it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from ci_doctor.commands.help_layout import HelpLayout

# What an option is put on: a function, or the command that it has become.
OptionsT = TypeVar("OptionsT", bound=Callable[..., Any] | click.Command)
# Headings that mean the same in every command. The last two stand behind all others.
OPTIONS: Final = "Options"
INTERPRETERS: Final = "Interpreters"
VERDICT: Final = "Verdict"
TIME: Final = "Time"
REPORT: Final = "Report"
GENERAL: Final = "General"
_LAST: Final = (REPORT, GENERAL)


class GroupedOption(click.Option):
    """An option that knows the heading under which the help shows it."""

    def __init__(self, *declarations: Any, group: str = OPTIONS, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes)
        self.group = group

    def make_metavar(self, ctx: click.Context) -> str:
        """The word for a value: N for a whole number, where click has INTEGER RANGE."""
        if self.metavar is None and (
            self.type is click.INT or isinstance(self.type, click.IntRange)
        ):
            return "N"
        if self.metavar is None and (
            self.type is click.FLOAT or isinstance(self.type, click.FloatRange)
        ):
            return "NUMBER"
        return super().make_metavar(ctx)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """What click puts in brackets; that a number of things is at least 1 needs no word."""
        extra = super().get_help_extra(ctx)
        words = range_in_words(self.type)
        if words is not None:
            extra["range"] = words
        elif "range" in extra:
            del extra["range"]
        return extra

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, with one pair of brackets at the end."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        joined = record[1].replace("]  [", "; ")
        return record[0], joined.replace("  [", " [")


def range_in_words(kind: object) -> str | None:
    """What values a number may have; None if any, or any above 0 or from 0 or 1 on."""
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return None
    if kind.min is not None and kind.max is not None:
        return f"between {kind.min} and {kind.max}"
    if kind.min is not None and kind.min > 1:
        return f"at least {kind.min}"
    return None


def option(
    *declarations: str, group: str = OPTIONS, **attributes: Any
) -> Callable[[OptionsT], OptionsT]:
    """As click.option, with the heading `group`."""
    return click.option(*declarations, cls=GroupedOption, group=group, **attributes)


class Documented:
    """What a command has besides click's: examples, exit codes, its section of the configuration."""

    def __init__(
        self,
        *arguments: Any,
        examples: Mapping[str, str] | None = None,
        exits: Mapping[int, str] | None = None,
        section: str | None = None,
        below: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        """examples: a command line, and the sentence that says what it does.

        exits: what exit codes mean for this command, if that is more than docs/exit-codes.md says.
        section: the section of ci-doctor.toml whose keys its options override.
        below: words that it takes for commands of their own though it is no group, and their modules.
        """
        super().__init__(*arguments, **attributes)
        self.examples = dict(examples or {})
        self.exits = dict(exits or {})
        self.section = section
        self.below = dict(below or {})

    def get_help(self: Any, ctx: click.Context) -> str:
        """The help text, in our layout."""
        layout = HelpLayout(width=ctx.terminal_width, max_width=ctx.max_content_width)
        self.format_help(ctx, layout)
        return layout.getvalue().rstrip("\n")

    def format_options(self: Any, ctx: click.Context, formatter: Any) -> None:
        """Write examples, options by group, and exit codes, in place of click's one block of options.

        `formatter` is the layout of get_help.
        """
        if self.examples:
            formatter.write_examples(self.examples)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
        for heading, options in options_by_group(self, ctx).items():
            records = [each.get_help_record(ctx) for each in options]
            with formatter.section(heading):
                formatter.write_options(record for record in records if record is not None)
        if self.exits:
            with formatter.section("Exit codes"):
                formatter.write_dl((str(code), text) for code, text in self.exits.items())


class DocumentedCommand(Documented, click.Command):
    """A command with its documentation."""


def command(
    name: str, *, cls: type[DocumentedCommand] = DocumentedCommand, **attributes: Any
) -> Callable[[Callable[..., Any]], DocumentedCommand]:
    """As click.command, with what Documented takes."""
    return click.command(name, cls=cls, **attributes)


def options_by_group(shown: click.Command, ctx: click.Context) -> dict[str, list[click.Option]]:
    """The options that help shows, by heading: in the order of their declaration, the common ones last."""
    groups: dict[str, list[click.Option]] = {}
    for parameter in shown.get_params(ctx):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            groups.setdefault(_group_of(parameter), []).append(parameter)
    last = {name: groups.pop(name) for name in _LAST if name in groups}
    return groups | last


def _group_of(parameter: click.Option) -> str:
    # click's own, which it makes itself.
    if "--help" in parameter.opts:
        return GENERAL
    group: str = getattr(parameter, "group", OPTIONS)
    return group
