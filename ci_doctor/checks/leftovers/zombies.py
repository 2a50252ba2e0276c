# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: processes that have ended and that nobody waits for."""

from collections import Counter

from ci_doctor.checks.check import CheckResult, DoctorCheck, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.leftovers.rules import ZOMBIES
from ci_doctor.checks.processes import read_processes
from ci_doctor.model.finding import Severity
from ci_doctor.render.formatting import amount

# Some are there at any time: a parent waits a little later.
_MANY = 20
# Of the table of processes: then new ones fail soon (pid_max, proc_sys_kernel(5)).
_MOST = 0.25


def _run(context: CheckContext) -> CheckResult:
    table = context.shared(read_processes)
    zombies = [process for process in table.values() if process.kin.ended]
    count = len(zombies)
    summary = f"{amount(count, 'zombie')} among {len(table)} processes"
    if count < _MANY:
        return CheckResult(summary=summary)
    parent, most = Counter(process.kin.parent for process in zombies).most_common(1)[0]
    words = f"{count} processes have ended and are not waited for, {most} of them by pid {parent}"
    if parent in table:
        words += f" ({table[parent].command})"
    limit = int((context.proc / "sys" / "kernel" / "pid_max").read_text())
    severity = Severity.WARNING if count > _MOST * limit else None
    return CheckResult(summary=summary, problems=(problem(ZOMBIES, words, severity=severity),))


CHECK = DoctorCheck(
    id="leftovers/zombies",
    title="processes that have ended and that nobody waits for",
    run=_run,
)
