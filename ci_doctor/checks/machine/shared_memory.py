# SPDX-License-Identifier: Apache-2.0
"""Reads /dev/shm: the room for what processes share."""

import os

from ci_doctor.checks.check import DoctorCheck
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.rules import SHARED_MEMORY_SMALL
from ci_doctor.checks.result import CheckResult, problem
from ci_doctor.checks.workload import SERVING
from ci_doctor.model.parse_size import parse_size
from ci_doctor.render.formatting import size


def _run(context: CheckContext) -> CheckResult:
    usage = os.statvfs(context.dev / "shm")
    free = usage.f_bavail * usage.f_frsize
    total = usage.f_blocks * usage.f_frsize
    summary = f"/dev/shm has {size(free)} free of {size(total)}"
    least = parse_size(context.settings.shared_memory)
    figures = {"free": free, "total": total}
    if free >= least:
        return CheckResult(summary=summary, figures=figures)
    short = problem(SHARED_MEMORY_SMALL, f"{summary}; {size(least)} are needed")
    return CheckResult(summary=summary, problems=(short,), figures=figures)


CHECK = DoctorCheck(
    id="machine/shared-memory",
    title="room in /dev/shm",
    needed_for=SERVING,
    run=_run,
)
