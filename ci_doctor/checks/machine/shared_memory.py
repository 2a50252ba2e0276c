# SPDX-License-Identifier: Apache-2.0
"""Reads /dev/shm: the room for what processes share."""

import os
from pathlib import Path

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.mounts import mount_holding, read_mounts
from ci_doctor.checks.machine.rules import (
    SHARED_MEMORY_ON_DISK,
    SHARED_MEMORY_SMALL,
    SHARED_MEMORY_UNUSABLE,
)
from ci_doctor.checks.settings import SERVING
from ci_doctor.model.parse_size import parse_size
from ci_doctor.render.formatting import size


def _run(context: CheckContext) -> CheckResult:
    place = context.dev / "shm"
    try:
        usage = os.statvfs(place)
    except FileNotFoundError:
        summary = "/dev/shm does not exist"
        return CheckResult(summary=summary, problems=(problem(SHARED_MEMORY_UNUSABLE, summary),))
    free = usage.f_bavail * usage.f_frsize
    total = usage.f_blocks * usage.f_frsize
    summary = f"/dev/shm has {size(free)} free of {size(total)}"
    least = parse_size(context.settings.shared_memory)
    problems = _of_the_mount(context)
    if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
        problems.append(problem(SHARED_MEMORY_UNUSABLE, "this user may not write to /dev/shm"))
    if free < least:
        problems.append(problem(SHARED_MEMORY_SMALL, f"{summary}; {size(least)} are needed"))
    figures = {"free": free, "total": total}
    return CheckResult(summary=summary, problems=tuple(problems), figures=figures)


def _of_the_mount(context: CheckContext) -> list[Problem]:
    """A problem if /dev/shm is a directory of a disk; nothing if mounts are unknown."""
    mount = mount_holding(read_mounts(context), Path("/dev/shm"))
    if mount is None or mount.is_in_memory:
        return []
    summary = f"/dev/shm lies on {mount.point} ({mount.kind}), and not in memory"
    return [problem(SHARED_MEMORY_ON_DISK, summary)]


CHECK = DoctorCheck(
    id="machine/shared-memory",
    title="room in /dev/shm",
    needed_for=SERVING,
    run=_run,
)
