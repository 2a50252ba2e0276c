# SPDX-License-Identifier: Apache-2.0
"""Reads how busy the machine is. Slow is not broken: this is never an error."""

import os
import re
from pathlib import Path

from ci_doctor.checks.check import CheckResult, DoctorCheck, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.kernel_files import text_of
from ci_doctor.checks.machine.memory import LARGEST_PROCESSES
from ci_doctor.checks.machine.rules import BUSY, PRESSURE
from ci_doctor.render.formatting import number, percent

# Runnable processes for each CPU, over the last minute.
_BUSY = 2.0
# Percent of the last ten seconds in which some process waited for memory.
_PRESSURE = 10.0
_AVERAGE = re.compile(r"^some avg10=(\d+\.\d+)", re.MULTILINE)


def _run(context: CheckContext) -> CheckResult:
    words = (text_of(context.proc / "loadavg") or "").split()
    try:
        load = float(words[0])
    except (IndexError, ValueError) as error:
        raise UndeterminedError(f"{context.proc}/loadavg does not say how busy it is") from error
    # The load counts the whole machine, and so must the CPUs.
    cpus = os.cpu_count() or 1
    summary = f"a load of {number(load)} on {cpus} CPUs"
    problems = []
    if load > _BUSY * cpus:
        problems.append(problem(BUSY, summary))
    figures: dict[str, float] = {"load": load, "cpus": cpus}
    for name in ("cpu", "memory", "io"):
        pressure = pressure_of(context.proc / "pressure" / name)
        if pressure is not None:
            figures[f"{name}_pressure"] = pressure
    memory = figures.get("memory_pressure", 0.0)
    if memory > _PRESSURE:
        sentence = f"processes waited for memory in {percent(memory / 100)} of the last ten seconds"
        problems.append(problem(PRESSURE, sentence, remedy=LARGEST_PROCESSES))
    return CheckResult(summary=summary, problems=tuple(problems), figures=figures)


def pressure_of(path: Path) -> float | None:
    """Percent of the last ten seconds in which some process stood still (Linux psi.rst)."""
    match = _AVERAGE.search(text_of(path) or "")
    if match is None:
        return None
    return float(match[1])


CHECK = DoctorCheck(
    id="machine/load",
    title="how busy the machine is",
    run=_run,
)
