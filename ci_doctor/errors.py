# SPDX-License-Identifier: Apache-2.0
"""Pure. One family of errors: what happened, what to do next, and the exit code.

CiDoctorError
├── UsageError           2   the command line or the configuration is wrong; nothing was started
│   └── ConfigError          … with the file and the line
├── PreparationError     1   the environment cannot be prepared as asked; its findings say why
└── InfraError          75   the evidence cannot be gathered, for a reason outside the change
Terminated             143   SIGTERM, SIGHUP, SIGQUIT (KeyboardInterrupt stands for SIGINT)
"""

from typing import TYPE_CHECKING

from ci_doctor.model.exit_code import ExitCode

if TYPE_CHECKING:  # msgspec is a tenth of the start of `--version`, which needs no finding
    from ci_doctor.model.finding import Finding


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
