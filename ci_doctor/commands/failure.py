# SPDX-License-Identifier: Apache-2.0
"""Acts on files and streams: what the error boundary does with an error."""

import contextlib

import click

from ci_doctor.commands.failing_statement import print_failing_statement
from ci_doctor.commands.mistyped import option_hint, value_hint
from ci_doctor.commands.options import read_output_options
from ci_doctor.errors import UsageError
from ci_doctor.session.failure import outcome_of
from ci_doctor.session.printing import say
from ci_doctor.session.session import Session


def fail(error: BaseException, session: Session) -> int:
    """Report a command that ended with `error`, and return its exit code."""
    read_output_options(session)  # click may not have come to them
    error = _ours(error, session)
    code = session.code_of(error)
    try:
        # Before the report: a shell must stop even if the report cannot be written.
        print_failing_statement(session.invocation.argv, code)
        return session.fail(error)
    # The last resort: whatever breaks here, the first error is what counts.
    except Exception as second:  # noqa: BLE001
        outcome = outcome_of(error, session.invocation.argv)
        text = f"error: {outcome.summary}\nwhile reporting this: {second!r}\n"
        with contextlib.suppress(Exception):
            say(text)
        return code


def _ours(error: BaseException, session: Session) -> BaseException:
    """An error of click's as one of ours."""
    match error:
        case click.exceptions.Abort():
            return KeyboardInterrupt()
        case click.exceptions.NoSuchOption():
            hint = option_hint(error.option_name, error.ctx, session) or _help(error)
            return UsageError(f"no such option {error.option_name}", hint=hint)
        case click.ClickException():
            # Click's sentences begin with a capital and end with a full stop; ours do neither.
            message = error.format_message().rstrip(".")
            first = message[:1].lower()
            hint = value_hint(error, session) or _help(error)
            return UsageError(first + message[1:], hint=hint)
        case _:
            return error


def _help(error: click.ClickException) -> str:
    command = "ci-doctor"
    # Only click's usage errors have a context, and not always.
    context = getattr(error, "ctx", None)
    if context is not None:
        command = context.command_path
    return f"see `{command} --help`"
