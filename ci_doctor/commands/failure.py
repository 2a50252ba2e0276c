# SPDX-License-Identifier: Apache-2.0
"""What the error boundary does with an error: a report without a verdict, and a documented exit code."""

import contextlib
import errno
import os
import platform
import shlex
import traceback
from pathlib import Path
from typing import Final

import click

from ci_doctor.commands.delivery import deliver
from ci_doctor.commands.exports_output import print_failing_statement
from ci_doctor.commands.invocation import Invocation
from ci_doctor.errors import CiDoctorError, Terminated
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.report import Failure
from ci_doctor.version import tool_version

# A path with one of these errors is one that this user cannot look at, whatever is there.
_UNUSABLE: Final = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP}


def fail(error: BaseException, invocation: Invocation) -> int:
    """Deliver the report of a failed run, and return its exit code."""
    failure, code = describe(error, invocation)
    print_failing_statement(invocation, code)
    report = invocation.report(
        verdict=None,
        error=failure,
        exit_code=code,
        summary=failure.message,
        findings=error.findings if isinstance(error, CiDoctorError) else (),
    )
    try:
        return deliver(
            report, as_json=invocation.wants_json, directory=_writable_directory(invocation)
        )
    except Exception as second:  # noqa: BLE001 - the last resort: whatever breaks here, the first error is what counts
        with contextlib.suppress(Exception):
            click.echo(f"error: {failure.message}\nwhile reporting this: {second!r}", err=True)
        return code


def describe(error: BaseException, invocation: Invocation) -> tuple[Failure, ExitCode]:
    """What happened in words, and the exit code."""
    match error:
        case CiDoctorError():
            return Failure(message=error.message, hint=error.hint), error.code
        case click.ClickException():
            return _usage(error, invocation), ExitCode.USAGE
        case KeyboardInterrupt() | click.exceptions.Abort():
            return Failure(message="interrupted (SIGINT)"), ExitCode.SIGINT
        case Terminated():
            return Failure(message="terminated (SIGTERM)"), ExitCode.SIGTERM
        case OSError() if (found := _told_by_the_system(error)) is not None:
            return found
        case _:
            return _bug(error, invocation), ExitCode.BUG


def _told_by_the_system(error: OSError) -> tuple[Failure, ExitCode] | None:
    """What is wrong with the machine, or with a path that we were given, where that is plain."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Failure(message=str(error), hint="free some space on that disk"), ExitCode.INFRA
    if error.errno in _UNUSABLE and error.filename is not None:
        message = f"cannot use {os.fsdecode(error.filename)}: {error.strerror}"
        return Failure(
            message=message, hint="name another, or run as a user who may use it"
        ), ExitCode.USAGE
    try:
        Path.cwd()
    except FileNotFoundError:
        message = "the working directory does not exist any more"
        return Failure(message=message, hint="go to one that does"), ExitCode.INFRA
    return None


def _usage(error: click.ClickException, invocation: Invocation) -> Failure:
    context = getattr(error, "ctx", None)
    hint = f"see `{context.command_path if context else 'ci-doctor'} --help`"
    if isinstance(error, click.exceptions.NoSuchOption):
        if error.possibilities:
            hint = f"did you mean {error.possibilities[0]}?"
        elif invocation.command == "run":
            hint = f"{hint}; what belongs to the command stands after `--`"
        return Failure(message=f"no such option {error.option_name}", hint=hint)
    message = error.format_message().rstrip(".")
    return Failure(message=message[:1].lower() + message[1:], hint=hint)


def _bug(error: BaseException, invocation: Invocation) -> Failure:
    trace = "".join(traceback.format_exception(error))
    detail = (
        f"ci-doctor {tool_version()}, Python {platform.python_version()}, {platform.platform()}\n"
        f"command: {shlex.join(['ci-doctor', *invocation.argv])}\n\n{trace}"
    )
    return Failure(
        message=f"a bug in ci-doctor: {type(error).__name__}: {error}",
        hint="this says nothing about your change; please report it with the text below",
        detail=detail,
    )


def _writable_directory(invocation: Invocation) -> Path | None:
    """The report directory, where it can be had: its absence may be the very error at hand."""
    try:
        directory = invocation.report_directory
        return (
            None
            if directory is None or (directory.exists() and not directory.is_dir())
            else directory
        )
    except OSError:
        return None
