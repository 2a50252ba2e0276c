# SPDX-License-Identifier: Apache-2.0
"""Reads the working directory: makes an outcome of an exception, with what happened and a hint."""

import errno
import os
import platform
import shlex
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ci_doctor.errors import (
    CiDoctorError,
    InfraError,
    PreparationError,
    Shortage,
    Terminated,
    shortage,
)
from ci_doctor.model.outcome import ErrorKind, Failure, Outcome, Verdict, signal_kind
from ci_doctor.version import tool_version

# A path with one of these errors is one that this user cannot look at, whatever is there.
_UNUSABLE: Final = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP}


def outcome_of(error: BaseException, argv: Sequence[str]) -> Outcome:
    """What a command that ended with `error` has to report; `argv` is its command line."""
    match error:
        case CiDoctorError():
            return _ours(error)
        case KeyboardInterrupt():
            return _ended(Failure(message="interrupted (SIGINT)", kind=ErrorKind.SIGINT))
        case Terminated():
            message = f"terminated ({error.signal})"
            return _ended(Failure(message=message, kind=signal_kind(error.signal)))
        case _:
            return _unexpected(error, argv)


def _ours(error: CiDoctorError) -> Outcome:
    kind: ErrorKind
    verdict: Verdict | None
    match error:
        case PreparationError():
            kind = ErrorKind.PREPARATION
            verdict = Verdict.FAILED
        case InfraError():
            kind = ErrorKind.INFRA
            verdict = Verdict.INFRA
        case _:
            lacking = _shortage_behind(error)
            if lacking is not None:
                return _infra(error.message, lacking.hint)
            # What was typed was wrong: nothing has been judged.
            kind = ErrorKind.USAGE
            verdict = None
    failure = Failure(message=error.message, hint=error.hint, kind=kind)
    return Outcome(verdict=verdict, summary=error.message, error=failure, findings=error.findings)


def _shortage_behind(error: CiDoctorError) -> Shortage | None:
    """What the machine lacked, if that is why a file could not be used that a person named."""
    if error.__cause__ is None:
        return None
    # A read-only place is one that was named wrongly.
    if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EROFS:
        return None
    return shortage(error.__cause__)


def _ended(failure: Failure, verdict: Verdict | None = None) -> Outcome:
    return Outcome(verdict=verdict, summary=failure.message, error=failure)


def _unexpected(error: BaseException, argv: Sequence[str]) -> Outcome:
    """What is wrong with the machine, or with a path that a person named; else a bug of ours."""
    lacking = shortage(error)
    if lacking is not None:
        return _infra(lacking.message, lacking.hint)
    if isinstance(error, OSError):
        return _of_the_system(error, argv)
    return _ended(_bug(error, argv))


def _of_the_system(error: OSError, argv: Sequence[str]) -> Outcome:
    if error.errno in _UNUSABLE and error.filename is not None:
        message = f"cannot use {os.fsdecode(error.filename)}: {error.strerror}"
        hint = "name another, or run as a user who may use it"
        return _ended(Failure(message=message, hint=hint, kind=ErrorKind.USAGE))
    # Any call that uses a path may fail for this reason, with an error that does not name it.
    try:
        Path.cwd()
    except FileNotFoundError:
        return _infra("the working directory does not exist any more", "go to one that does")
    return _ended(_bug(error, argv))


def _infra(message: str, hint: str) -> Outcome:
    return _ended(Failure(message=message, hint=hint, kind=ErrorKind.INFRA), Verdict.INFRA)


def _bug(error: BaseException, argv: Sequence[str]) -> Failure:
    python = platform.python_version()
    versions = f"ci-doctor {tool_version()}, Python {python}, {platform.platform()}"
    command = shlex.join(["ci-doctor", *argv])
    trace = "".join(traceback.format_exception(error))
    detail = f"{versions}\ncommand: {command}\n\n{trace}"
    kind = type(error).__name__
    return Failure(
        message=f"a bug in ci-doctor: {kind}: {error}",
        hint="this says nothing about your change; please report it with the text below",
        detail=detail,
        kind=ErrorKind.BUG,
    )
