# SPDX-License-Identifier: Apache-2.0
"""Reads how many files the disks of a job can still take."""

import shlex
from collections.abc import Sequence

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.disks import Disks, PlacedDirectory, names_of, read_disks
from ci_doctor.checks.machine.rules import INODES_LOW
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Severity

# A virtual environment with vLLM has some 50 000 files. A small file system has few inodes by
# intention, and is judged by their share.
_TOO_FEW = 10_000
_FEW = 50_000
_TOO_FEW_SHARE = 0.02
_FEW_SHARE = 0.1


def _run(context: CheckContext) -> CheckResult:
    return inodes_result(context.shared(read_disks))


def inodes_result(disks: Disks) -> CheckResult:
    """What to say of the inodes of `disks`. Raises UndeterminedError if there is none to look at."""
    groups = disks.by_device()
    if not groups:
        raise UndeterminedError(disks.unknown() or "no directory can be looked at")
    problems = []
    figures: dict[str, int] = {}
    least: PlacedDirectory | None = None
    for group in groups:
        disk = group[0]
        if disk.is_read_only or not disk.inodes:
            continue
        figures[f"{disk.disk_name} inodes free"] = disk.inodes_free
        if least is None or disk.inodes_free < least.inodes_free:
            least = disk
        short = _problem_of(group)
        if short is not None:
            problems.append(short)
    return CheckResult(
        summary="no disk has a fixed number of inodes" if least is None else _left(least),
        problems=tuple(problems),
        unknown=disks.unknown(),
        figures=figures,
    )


def _left(disk: PlacedDirectory) -> str:
    return f"{disk.disk_name} has {disk.inodes_free} inodes free of {disk.inodes}"


def _problem_of(group: Sequence[PlacedDirectory]) -> Problem | None:
    disk = group[0]
    severity = severity_of(disk.inodes_free, disk.inodes)
    if severity is None:
        return None
    place = disk.existing if disk.mount is None else disk.mount.point
    listing = f"du -x --inodes -d3 {shlex.quote(str(place))} 2>/dev/null | sort -n | tail -20"
    return problem(
        INODES_LOW,
        f"{_left(disk)}: {names_of(group)}",
        remedy=f"remove what has many files and is of no use: `{listing}`",
        severity=severity,
    )


def severity_of(free: int, total: int) -> Severity | None:
    """How bad it is that of `total` inodes `free` are left; None if it is not."""
    if free < min(_TOO_FEW, total * _TOO_FEW_SHARE):
        return Severity.ERROR
    if free < min(_FEW, total * _FEW_SHARE):
        return Severity.WARNING
    return None


CHECK = DoctorCheck(
    id="machine/inodes",
    title="free inodes of caches and temporary directories",
    needed_for=ALL,
    run=_run,
)
