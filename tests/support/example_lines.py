# SPDX-License-Identifier: Apache-2.0
"""Parses the command lines of help texts with the parsers of the commands that they are about."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from ci_doctor.cli import root
from ci_doctor.model.words import parse_duration
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session
from docs.site.command_manuals import command_at
from tests.support.documents.shell_commands import tool_commands

_TIMES = {"S", "TIME"}


def own_words(line: str) -> list[str]:
    """The words of `ci-doctor` in a shell's line, up to the end of its command."""
    (words,) = tool_commands(line)
    # A shell puts the number of the last background process in its place.
    return ["4242" if word == "$!" else word for word in words]


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """The values of every option and argument. Raises what click raises for a wrong command line."""
    session = Session(Invocation.begin(words))
    context = click.Context(root, info_name="ci-doctor", obj=session, **root.context_settings)
    path, rest = _parted(context, list(words))
    parent = command_at(context, path)
    inner = parent.command.make_context(parent.info_name, rest, parent=parent.parent or context)
    for parameter in parent.command.params:
        _check_time(parameter, inner.params.get(parameter.name or ""))
    return dict(inner.params)


def _parted(context: click.Context, words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """The words that name the command, and those behind them."""
    count = 0
    while count < len(words):
        try:
            command_at(context, tuple(words[: count + 1]))
        except KeyError:
            break
        count += 1
    return tuple(words[:count]), words[count:]


def _check_time(parameter: click.Parameter, value: object) -> None:
    """click knows a duration as a text."""
    if parameter.metavar in _TIMES and isinstance(value, str):
        parse_duration(value)


def option_names(command: click.Command) -> Iterator[str]:
    """Every name of every option."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (*parameter.opts, *parameter.secondary_opts)
