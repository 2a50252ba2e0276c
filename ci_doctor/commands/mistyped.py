# SPDX-License-Identifier: Apache-2.0
"""Hints for words of a command line that click does not know."""

import re
from importlib import import_module

import click

from ci_doctor.commands.forgotten_quotes import quotes_hint
from ci_doctor.commands.listing import COMMANDS
from ci_doctor.model.suggestion import nearest
from ci_doctor.session.session import Session

_NOT_ONE_OF = re.compile(r"'(?P<value>[^']*)' is not one of")


def option_hint(name: str, context: click.Context | None, session: Session) -> str | None:
    """What to do about an unknown option; None if nothing is known of it."""
    if context is None:
        return None
    near = nearest(name, _names(context.command))
    if near is not None:
        return f"did you mean {near}?"
    owners = [f"`ci-doctor {each}`" for each in COMMANDS if name in _names(_command(each))]
    if owners:
        return f"{name} is an option of {', '.join(owners)}"
    if session.invocation.command == "run":
        return "see `ci-doctor run --help`; what belongs to the command stands after `--`"
    return quotes_hint(session.invocation.argv, context.command)


def value_hint(error: click.ClickException, session: Session) -> str | None:
    """What to do about a value that is none of those allowed, or about a word too many."""
    context = getattr(error, "ctx", None)
    if context is None:
        return None
    unknown = _NOT_ONE_OF.search(error.format_message())
    parameter = getattr(error, "param", None)
    if unknown is not None and parameter is not None and isinstance(parameter.type, click.Choice):
        near = nearest(unknown["value"], map(str, parameter.type.choices))
        return f"did you mean `{near}`?" if near is not None else None
    if "unexpected extra argument" in error.format_message():
        return quotes_hint(session.invocation.argv, context.command)
    return None


def _names(command: click.Command) -> list[str]:
    names = ["--help"]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names += parameter.opts
    return [name for name in names if name.startswith("--")]


def _command(name: str) -> click.Command:
    word = name.replace("-", "_")
    command: click.Command = getattr(import_module(f"ci_doctor.commands.{word}"), word)
    return command
