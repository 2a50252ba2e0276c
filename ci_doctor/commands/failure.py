# SPDX-License-Identifier: Apache-2.0
"""Acts on files and streams: what the error boundary does with an error of click's, or with any other."""

import contextlib
import sys

import click

from ci_doctor.commands.exports_output import print_failing_statement
from ci_doctor.commands.options import read_output_options
from ci_doctor.errors import UsageError
from ci_doctor.session.failure import outcome_of
from ci_doctor.session.session import Session


def fail(error: BaseException, session: Session) -> int:
    """Report a command that ended with `error`, and return its exit code."""
    read_output_options(session)  # click may not have come to them
    error = _ours(error, session)
    print_failing_statement(session.invocation.argv, session.code_of(error))
    try:
        return session.fail(error)
    except Exception as second:  # noqa: BLE001 - the last resort: whatever breaks here, the first error is what counts
        outcome = outcome_of(error, session.invocation.argv)
        with contextlib.suppress(Exception):
            print(f"error: {outcome.summary}\nwhile reporting this: {second!r}", file=sys.stderr)  # noqa: T201
        return session.code_of(error)


def _ours(error: BaseException, session: Session) -> BaseException:
    """An error of click's as one of ours."""
    match error:
        case click.exceptions.Abort():
            return KeyboardInterrupt()
        case click.exceptions.NoSuchOption():
            hint = _help(error)
            if error.possibilities:
                hint = f"did you mean {error.possibilities[0]}?"
            elif session.invocation.command == "run":
                hint = f"{hint}; what belongs to the command stands after `--`"
            return UsageError(f"no such option {error.option_name}", hint=hint)
        case click.ClickException():
            message = error.format_message().rstrip(".")
            return UsageError(message[:1].lower() + message[1:], hint=_help(error))
        case _:
            return error


def _help(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"see `{context.command_path if context else 'ci-doctor'} --help`"
