# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: runs a command beside us, and looks for the cause if it fails."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ci_doctor.errors import UsageError
from ci_doctor.supervision.conclude import Ended, conclude
from ci_doctor.supervision.request import Supervised, SupervisionRequest
from ci_doctor.system.files.own_directory import own_directory
from ci_doctor.system.processes.interruption import signals_noted
from ci_doctor.system.processes.kernel_words import KernelBefore
from ci_doctor.system.relay.output import CommandLog
from ci_doctor.system.relay.relay import CommandEnd, relay

if TYPE_CHECKING:
    from ci_doctor.supervision.cause_of_failure import CauseOfFailure
    from ci_doctor.system.secrets.redaction import Redactor

LOG_FILE: Final = "command.log"
_LOG_MODE: Final = 0o644
# A person at the keyboard, or a terminal that is gone, wants no explanation.
_UNEXPLAINED: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGHUP})
# 128+N: the kernel sends the one for lack of memory, and the others for a fault of the program.
_OF_KERNEL: Final = frozenset(
    {128 + number for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS)}
)


def run(request: SupervisionRequest, redactor: "Redactor") -> Supervised:
    """Run the command to its end; its status is in the outcome.

    Its log is `command.log` in the directory, without secrets. Raises CommandRefusedError if the
    system does not run the command, UsageError if the log cannot be written, and OSError if the
    machine lacks what is needed.
    """
    if request.directory is not None:
        return _run_with_log(request, redactor, request.directory / LOG_FILE)
    with own_directory() as directory:
        return _run_with_log(request, redactor, Path(directory) / LOG_FILE)


def _run_with_log(request: SupervisionRequest, redactor: "Redactor", path: Path) -> Supervised:
    log = _open_log(path, request.log_limit)
    before = KernelBefore.read()
    try:
        end = relay(request.command, request.environ, log)
    except BaseException:
        log.close()
        path.unlink(missing_ok=True)
        raise
    # Short work that must be whole: without it the log would keep its middle, or its secrets.
    with signals_noted():
        problems = [*end.problems, log.finish()]
    cause = None
    if _wants_explanation(end):
        cause = _find_cause(path, request, end.returncode)
        problems.append(cause.problem or "")
    if request.directory is not None:
        with signals_noted():
            problems += _publish(path, redactor)
    # The command may have removed it.
    kept = request.directory is not None and path.exists()
    ended = Ended(
        end=end,
        cause=cause,
        log=path if kept else None,
        problems=tuple(filter(None, problems)),
        kernel=before.since() if cause is not None and end.shell_status in _OF_KERNEL else (),
    )
    return conclude(request, ended)


def _open_log(path: Path, limit: int) -> CommandLog:
    try:
        return CommandLog(path, limit)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", hint="name another --report-dir"
        ) from error


def _wants_explanation(end: CommandEnd) -> bool:
    if not end.returncode or end.request in _UNEXPLAINED:
        return False
    # `| head` has read enough.
    return not (end.reader_left and end.returncode in {-signal.SIGPIPE, 128 + signal.SIGPIPE})


def _find_cause(path: Path, request: SupervisionRequest, status: int) -> "CauseOfFailure":
    # A command that succeeds needs none of this.
    from ci_doctor.supervision.cause_of_failure import find_cause

    return find_cause(path, request.rules, status)


def _publish(path: Path, redactor: "Redactor") -> tuple[str, ...]:
    """Take the secrets out of the log, for everybody to read; sentences on what went wrong."""
    from ci_doctor.system.secrets.log_files import redact_files

    try:
        warnings = redact_files([path], redactor)
        if path.exists():
            path.chmod(_LOG_MODE)
    except OSError as error:
        return (f"{path}: {error.strerror or error}",)
    return warnings
