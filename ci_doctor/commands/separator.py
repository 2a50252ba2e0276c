# SPDX-License-Identifier: Apache-2.0
"""The `--` between our words and those of a command that a person gives."""

import shlex
from collections.abc import Sequence

import click

from ci_doctor.commands.forgotten_quotes import quotes_hint
from ci_doctor.errors import UsageError
from ci_doctor.session.invocation import Invocation


def stands_behind(invocation: Invocation, words: Sequence[str]) -> bool:
    """Whether `words` are what stands behind `--`."""
    return tuple(words) == invocation.argv[len(invocation.own_argv) + 1 :]


def check_separator(invocation: Invocation, words: Sequence[str]) -> None:
    """Raises UsageError if the command `words` does not stand behind `--`.

    If the `--` stands among them, they begin with a part of an option's value without its quotes.

    Without it nobody could tell whose option `--json` is.
    """
    if not words or stands_behind(invocation, words):
        return
    context = click.get_current_context(silent=True)
    if context is not None and "--" in words:
        hint = quotes_hint(invocation.argv, context.command)
        if hint is not None:
            raise UsageError(f"`{words[0]}` belongs to no option", hint=hint)
    ours = invocation.argv[: -len(words)]
    line = shlex.join(["ci-doctor", *ours, "--", *words])
    raise UsageError("`--` is missing before the command", hint=f"write: {line}")
