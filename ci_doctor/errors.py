# SPDX-License-Identifier: Apache-2.0
"""Pure. One family of errors: what happened, what to do next, the exit code; and a machine that lacks something, told from a bug of ours."""

import errno
from typing import TYPE_CHECKING, Final, NamedTuple

from ci_doctor.model.exit_code import ExitCode

if TYPE_CHECKING:  # msgspec is a tenth of the start of `--version`, which needs no finding
    from ci_doctor.model.outcome import Finding


class CiDoctorError(Exception):
    """`message` says what happened, `hint` what to do; both without a full stop at the end."""

    code = ExitCode.BUG

    def __init__(
        self, message: str, *, hint: str | None = None, findings: tuple["Finding", ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.findings = findings


class UsageError(CiDoctorError):
    """The command line or the configuration is wrong; nothing was started."""

    code = ExitCode.USAGE


class ConfigError(UsageError):
    """A configuration value is wrong; the message begins with `file:line`."""


class PreparationError(CiDoctorError):
    """The environment cannot be prepared as asked; `findings` say why."""

    code = ExitCode.FAILURE


class InfraError(CiDoctorError):
    """The evidence cannot be gathered, for a reason outside the change under test."""

    code = ExitCode.INFRA


class Terminated(BaseException):
    """SIGTERM, SIGHUP or SIGQUIT arrived: `signal` is its name.

    A sibling of KeyboardInterrupt: `except Exception` must not hold it up.
    """

    code = ExitCode.SIGTERM

    def __init__(self, signal: str = "SIGTERM") -> None:
        super().__init__(signal)
        self.signal = signal


# --- a machine that has run out of something, told from a bug of ours ---


class Shortage(NamedTuple):
    """What the machine has not got, and what to raise or free."""

    message: str
    hint: str


_PROCESSES = Shortage(
    "no more processes or threads may be started",
    "raise `ulimit -u`, or the limit of processes of the container (pids.max)",
)
_MEMORY = Shortage(
    "no memory is left", "free memory, or raise `ulimit -v` or the memory limit of the container"
)
_DISK = "free some space on that disk"
_OF_ERROR: Final = {
    errno.EMFILE: Shortage("ci-doctor may open no more files", "raise `ulimit -n`"),
    errno.ENFILE: Shortage(
        "the machine may open no more files", "raise fs.file-max (sysctl), or end what holds them"
    ),
    errno.EAGAIN: _PROCESSES,
    errno.ENOMEM: _MEMORY,
    errno.ENOSPC: Shortage("a disk is full", _DISK),
    errno.EDQUOT: Shortage("a disk quota is used up", _DISK),
    errno.EROFS: Shortage(
        "a file system is read-only",
        "name a directory that can be written, with --report-dir or TMPDIR",
    ),
}
# The loader of libraries gives the reason as text alone (dlopen(3)).
_OF_TEXT: Final = {
    "Too many open files": _OF_ERROR[errno.EMFILE],
    "Cannot allocate memory": _MEMORY,
    "failed to map segment from shared object": _MEMORY,
    "can't start new thread": _PROCESSES,
}


def shortage(error: BaseException) -> Shortage | None:
    """What was missing, if that is why `error` was raised; else None.

    Its causes count, and the members of a group.
    """
    waiting: list[BaseException] = [error]
    visited: set[int] = set()
    while waiting:
        each = waiting.pop(0)
        if id(each) in visited:
            continue
        visited.add(id(each))
        named = _of(each)
        if named is not None:
            return named
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(each.exceptions)
        origin = each.__cause__
        if origin is None and not each.__suppress_context__:
            origin = each.__context__
        if origin is not None:
            waiting.append(origin)
    return None


def _of(error: BaseException) -> Shortage | None:
    if isinstance(error, MemoryError):
        return _MEMORY
    if isinstance(error, OSError):
        return _with_details(_OF_ERROR.get(error.errno or 0), error)
    if isinstance(error, ImportError | RuntimeError):
        text = str(error)
        for part, shortage in _OF_TEXT.items():
            if part in text:
                return shortage
    return None


def _with_details(shortage: Shortage | None, error: OSError) -> Shortage | None:
    """With the path, if the error names one."""
    if shortage is None:
        return None
    return Shortage(f"{shortage.message}: {error}", shortage.hint)
