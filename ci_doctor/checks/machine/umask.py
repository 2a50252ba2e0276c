# SPDX-License-Identifier: Apache-2.0
"""Reads the umask: what is taken from the permissions of new files."""

from ci_doctor.checks.check import CheckResult, DoctorCheck, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.kernel_files import text_of
from ci_doctor.checks.machine.rules import UMASK_ODD
from ci_doctor.model.finding import Severity, ShellCommand

_OWNER = 0o700
_OTHERS_WRITE = 0o002


def _run(context: CheckContext) -> CheckResult:
    mask = _umask(context)
    summary = f"the umask is {mask:03o}"
    figures = {"umask": f"{mask:03o}"}
    remedy = ShellCommand("umask 022")
    if mask & _OWNER:
        owner = problem(UMASK_ODD, f"{summary}, so files are closed to their owner", remedy=remedy)
        return CheckResult(summary=summary, problems=(owner,), figures=figures)
    if not mask & _OTHERS_WRITE:
        sentence = f"{summary}, so every user of the machine may change new files"
        others = problem(UMASK_ODD, sentence, remedy=remedy, severity=Severity.NOTE)
        return CheckResult(summary=summary, problems=(others,), figures=figures)
    return CheckResult(summary=summary, figures=figures)


def _umask(context: CheckContext) -> int:
    """From /proc (Linux 4.7): umask(2) can only be read by setting it, for all threads at once."""
    for line in (text_of(context.proc / "self" / "status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Umask":
            return int(value, 8)
    raise UndeterminedError(f"{context.proc}/self/status does not name the umask")


CHECK = DoctorCheck(
    id="machine/umask",
    title="the umask",
    run=_run,
)
