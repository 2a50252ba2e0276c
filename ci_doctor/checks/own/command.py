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
    UndeterminedError,
    problem,
    unknown_result,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.own.rules import OWN_CHECK_FAILED
from ci_doctor.checks.settings import OwnCheck, Workload, timeout_s, words_of
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.finding import Evidence, NextStep, Severity, ShellCommand
from ci_doctor.system.processes.limited_runs import SeparateRun
from ci_doctor.system.secrets.redaction import Redactor

# POSIX, Shell Command Language, 2.8.2: what a shell says of a command that it could not run.
_NOT_RUN: Final = {126: "it cannot be executed", 127: "it was not found"}
# POSIX, the same place: a shell says so of a command that a signal ended.
_SIGNALLED: Final = 128
# The last lines of stderr say what is wrong; a log belongs elsewhere.
_EVIDENCE_LINES: Final = 8
_LONGEST_LINE: Final = 300


def own_check(name: str, own: OwnCheck) -> DoctorCheck:
    """The check `own/NAME`. Raises ValueError if `own` cannot be run as it is written."""
    words = words_of(own)
    return DoctorCheck(
        id=f"own/{name}",
        title=f"`{shlex.join(words)}`",
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
    redactor = Redactor.from_environment(context.environ)
    return result_of(name, own, ran, redactor)


def result_of(name: str, own: OwnCheck, ran: SeparateRun, redactor: Redactor) -> CheckResult:
    """What the end of the command says, without secrets."""
    code = ran.exit_code
    # Before a line is cut: a half of a secret would not be known as one.
    summary = _cut(_last_line(redactor.text(ran.stdout)))
    if code == ExitCode.PASS:
        return CheckResult(summary=summary or "exit status 0")
    evidence = _evidence(redactor.text(ran.stderr))
    if code == ExitCode.UNDECIDED:
        reason = summary or "exit status 86"
        return CheckResult(summary=reason, unknown=reason, evidence=evidence)
    not_judged = _not_judged(code)
    if code is None or not_judged is not None:
        return unknown_result(f"`{shlex.join(words_of(own))}`: {not_judged}")
    words = summary or f"exit status {code}"
    failed = problem(
        OWN_CHECK_FAILED,
        f"{name}: {words}",
        evidence=evidence,
        remedy=_remedy(own),
        severity=_severity(own, code),
        fault=_fault(own, code),
    )
    return CheckResult(summary=failed.finding.summary, problems=(failed,))


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


def _severity(own: OwnCheck, code: int) -> Severity:
    if code == ExitCode.INFRA:
        return Severity.ERROR
    return Severity(own.severity)


def _fault(own: OwnCheck, code: int) -> Fault:
    if code == ExitCode.INFRA:
        return Fault.ENVIRONMENT
    return Fault(own.fault)


def _remedy(own: OwnCheck) -> NextStep:
    """What the configuration says to do; else the command, to see all that it prints."""
    if own.remedy is not None:
        return own.remedy
    return ShellCommand(shlex.join(words_of(own)))


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    if not lines:
        return ""
    return lines[-1].strip().removesuffix(".")


def _evidence(stderr: str) -> tuple[Evidence, ...]:
    lines = stderr.rstrip().splitlines()[-_EVIDENCE_LINES:]
    if not lines:
        return ()
    excerpt = "\n".join(_cut(line) for line in lines)
    return (Evidence(excerpt=excerpt),)


def _cut(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    return line[: _LONGEST_LINE - 1] + "…"
