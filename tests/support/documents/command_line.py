# SPDX-License-Identifier: Apache-2.0
"""Reads the words of a ci-doctor command line by its real parser, without running the command."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from ci_doctor.cli import root
from ci_doctor.commands.diagnose import rules
from ci_doctor.errors import CiDoctorError
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session

_NUMBER = re.compile(r"^\$[!?$]$")
_OPTION = re.compile(r"--?[a-zA-Z][\w-]*")


def mistake_in(words: Sequence[str]) -> str | None:
    """What the parser says against `ci-doctor WORDS`; None if it takes them.

    Paths need not exist: a page shows them as examples.
    """
    if not words:
        return None  # the name alone, as in `command -v ci-doctor`
    session = Session(Invocation.begin(words))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(click.Path, "convert", _unchecked_path)
        try:
            # What the shell puts there is an example, too.
            known = [_NUMBER.sub("1", word) for word in words]
            context = root.make_context("ci-doctor", known, obj=session)
            _parse_below(context)
        except click.exceptions.Exit:
            return None
        except (click.exceptions.NoArgsIsHelpError, click.UsageError, CiDoctorError) as error:
            return str(error) or "a command is missing"
    return None


def unknown_in(words: Sequence[str]) -> str | None:
    """The same for inline code, where arguments may be missing: only commands and options are looked up."""
    command: click.Command = root
    context = click.Context(root, info_name="ci-doctor")
    rest = list(words)
    while rest and isinstance(command, click.Group) and not rest[0].startswith("-"):
        name = rest.pop(0)
        inner = command.get_command(context, name)
        if inner is None and _is_prose(name):
            return None
        if inner is None:
            return f"no command `{name}` in {context.command_path}"
        context = click.Context(inner, info_name=name, parent=context)
        command = inner
    # This command is no group: its own `make_context` chooses between two.
    if (context.command_path, rest[:1]) == ("ci-doctor diagnose", ["rules"]):
        command = rules
    known = {
        option
        for each in command.get_params(context)
        for option in (*each.opts, *each.secondary_opts)
    }
    for word in rest[: rest.index("--")] if "--" in rest else rest:
        option = _OPTION.match(word)
        if option is not None and option[0] not in known:
            return f"no option {option[0]} of {context.command_path}"
    return None


def _is_prose(word: str) -> bool:
    """A placeholder, or a word with a mark of punctuation: the title of a group in a log."""
    return word in {"…", "..."} or word.isupper() or word.endswith(":")


def _parse_below(context: click.Context) -> None:
    """Parse the words that a group has left for its command, and so on."""
    command = context.command
    while isinstance(command, click.Group):
        words = [*context._protected_args, *context.args]
        if not words:
            return
        name, inner, rest = command.resolve_command(context, words)
        assert inner is not None
        context = inner.make_context(name, rest, parent=context)
        command = inner


def _unchecked_path(kind: click.Path, value: Any, _parameter: object, _context: object) -> Any:
    if kind.type is not None and isinstance(value, str):
        return Path(value)
    return value
