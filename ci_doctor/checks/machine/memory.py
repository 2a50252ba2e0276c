# SPDX-License-Identifier: Apache-2.0
"""Reads /proc/meminfo: the memory that the machine has left."""

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.kernel_files import numbers_of
from ci_doctor.checks.machine.rules import MEMORY_LOW
from ci_doctor.checks.settings import ALL, SERVING, Workload
from ci_doctor.model.finding import Severity
from ci_doctor.render.formatting import size

# It shows names and no arguments: these may hold secrets.
LARGEST_PROCESSES = "end what is of no use among the largest processes: `ps axo pid,user,rss,comm --sort=-rss | head`"
_KIB = 1024
_MIB = 2**20
# Below the first nothing starts; a server loads weights through gigabytes of host memory.
NOTHING_STARTS: int = 256 * _MIB
LITTLE: int = 1024 * _MIB
LITTLE_FOR_SERVING: int = 4096 * _MIB


def _run(context: CheckContext) -> CheckResult:
    memory = numbers_of(context.proc / "meminfo")
    # Linux 3.14; it counts what the kernel can take back from its caches.
    if "MemAvailable" not in memory or "MemTotal" not in memory:
        raise UndeterminedError(f"{context.proc}/meminfo does not say how much memory is available")
    available = memory["MemAvailable"] * _KIB
    total = memory["MemTotal"] * _KIB
    swap = memory.get("SwapTotal", 0) * _KIB
    swap_free = memory.get("SwapFree", 0) * _KIB
    summary = f"{size(available)} of {size(total)} memory are available"
    if swap:
        summary += f", {size(swap - swap_free)} of {size(swap)} swap are in use"
    severity = memory_severity(available, context.workload)
    problems: tuple[Problem, ...] = ()
    if severity is not None:
        problems = (problem(MEMORY_LOW, summary, severity=severity, remedy=LARGEST_PROCESSES),)
    figures = {"available": available, "total": total, "swap": swap, "swap_free": swap_free}
    return CheckResult(summary=summary, problems=problems, figures=figures)


def memory_severity(available: int, workload: Workload | None) -> Severity | None:
    """How bad it is that so many bytes are available; None if it is not."""
    if available < NOTHING_STARTS:
        return Severity.ERROR
    if available < LITTLE:
        return Severity.WARNING
    if workload in SERVING and available < LITTLE_FOR_SERVING:
        return Severity.WARNING
    return None


CHECK = DoctorCheck(
    id="machine/memory",
    title="memory that the machine has left",
    needed_for=ALL,
    run=_run,
)
