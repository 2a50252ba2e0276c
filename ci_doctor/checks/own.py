# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a check of the repository, and reads its exit status and its output."""

import shlex
import signal
from functools import partial
from typing import Final

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    DoctorCheck,
    Fault,
    Findings,
    UndeterminedError,
    problem,
    result_of,
    unknown_result,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import DoctorSettings, OwnCheck, Workload, timeout_s, words_of
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.finding import Evidence, Rule, Severity, ShellCommand
from ci_doctor.system.processes.limited_runs import SeparateRun
from ci_doctor.system.secrets.redaction import Redactor

OWN_CHECK_FAILED: Final = Rule(
    id="doctor/own-check-failed",
    severity=Severity.ERROR,
    meaning="A check of the repository, a command in `[doctor.checks]`, failed. Exit "
    "status 75 is an error of the environment. Any other status has the severity and the fault that "
    "the configuration gives it. 0 is ok. 86, 126, 127 and the end by a signal are unknown.",
    remedy="Run the command by itself, and see what it prints.",
)
# POSIX, Shell Command Language, 2.8.2: what a shell says of a command that it could not run.
_NOT_RUN: Final = {126: "it cannot be executed", 127: "it was not found"}
# POSIX, the same place: a shell says so of a command that a signal ended.
_SIGNALLED: Final = 128
# The last lines of stderr say what is wrong; a log belongs elsewhere.
_EVIDENCE_LINES: Final = 8
_LONGEST_LINE: Final = 300


def checks(settings: DoctorSettings) -> tuple[DoctorCheck, ...]:
    """The checks of the repository, in the order of its configuration.

    Raises ValueError for one that `require_runnable` refuses.
    """
    return tuple(own_check(name, own) for name, own in settings.checks.items())


def own_check(name: str, own: OwnCheck) -> DoctorCheck:
    """The check `own/NAME`. Raises ValueError if `own` cannot be run as it is written."""
    return DoctorCheck(
        id=f"own/{name}",
        title=f"`{shlex.join(words_of(own))}`",
        run=partial(_run, name, own),
        cost=Cost.PROGRAM,
        needed_for=frozenset(Workload(each) for each in own.needed_for),
        deadline_s=timeout_s(own),
    )


def _run(name: str, own: OwnCheck, context: CheckContext) -> CheckResult:
    words = words_of(own)
    try:
        ran = context.run(words)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UndeterminedError(f"`{words[0]}` cannot be run: {reason}") from error
    return result_of(judged(name, own, ran, Redactor.from_environment(context.environ)))


def judged(name: str, own: OwnCheck, ran: SeparateRun, redactor: Redactor) -> Findings:
    """What the end of the command says, without secrets."""
    code = ran.exit_code
    # Before a line is cut: a half of a secret would not be known as one.
    lines = redactor.text(ran.stdout).strip().splitlines()
    said = _cut(lines[-1].strip().removesuffix(".")) if lines else ""
    if code == ExitCode.PASS:
        return said or "exit status 0"
    errors = redactor.text(ran.stderr).rstrip().splitlines()[-_EVIDENCE_LINES:]
    evidence = (Evidence(excerpt="\n".join(map(_cut, errors))),) if errors else ()
    if code == ExitCode.UNDECIDED:
        reason = said or "exit status 86"
        return CheckResult(summary=reason, unknown=reason, evidence=evidence)
    command = shlex.join(words_of(own))
    not_judged = _not_judged(code)
    if code is None or not_judged is not None:
        return unknown_result(f"`{command}`: {not_judged}")
    summary = f"{name}: {said or f'exit status {code}'}"
    is_infra = code == ExitCode.INFRA
    yield problem(
        OWN_CHECK_FAILED,
        summary,
        evidence=evidence,
        # What the configuration says to do; else the command, to see all that it prints.
        remedy=ShellCommand(command) if own.remedy is None else own.remedy,
        severity=Severity.ERROR if is_infra else Severity(own.severity),
        fault=Fault.ENVIRONMENT if is_infra else Fault(own.fault),
    )
    return summary


def _not_judged(code: int | None) -> str | None:
    """Why an exit status says nothing of what the command looks at; None if it does."""
    if code is None:
        return "it was ended"
    if code in _NOT_RUN:
        return f"exit status {code}: {_NOT_RUN[code]}"
    number = -code if code < 0 else code - _SIGNALLED
    try:
        return f"it was ended by {signal.Signals(number).name}"
    except ValueError:
        return None


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"
