# SPDX-License-Identifier: Apache-2.0
"""Reads the memory limits of this job's cgroup and of those above it, v1 and v2."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.cgroups import CgroupLevels, read_cgroups
from ci_doctor.checks.machine.kernel_files import number_of, numbers_of, text_of
from ci_doctor.checks.machine.memory import memory_severity
from ci_doctor.checks.machine.rules import (
    CGROUP_MEMORY_LOW,
    CGROUP_MEMORY_THROTTLED,
    EARLIER_OOM_KILLS,
)
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence
from ci_doctor.render.formatting import amount, size
from ci_doctor.system.processes.memory_events import limit_of

# At this share of `memory.high` the kernel has begun to slow allocations down, or is about to.
_AT_HIGH = 0.98


class MemoryLevel(Struct, frozen=True, kw_only=True):
    """The limits and the use of one cgroup, in bytes; a limit is None if there is none.

    `used` leaves out what the kernel would take back first (inactive files), as the kubelet does.
    `swap` is the limit of swap beside the memory.
    """

    directory: Path
    limit_file: Path
    limit: int | None
    high: int | None
    used: int
    swap: int | None
    kills: int

    @property
    def left(self) -> int | None:
        """Bytes until the limit; None without one."""
        if self.limit is None:
            return None
        return max(0, self.limit - self.used)


def _run(context: CheckContext) -> CheckResult:
    levels = list(read_levels(read_cgroups(context, "memory")))
    limited = [level for level in levels if level.left is not None]
    nearest = min(limited, key=lambda level: level.left or 0, default=None)
    problems = [*_throttled(levels), *_earlier_kills(levels)]
    figures: dict[str, int] = {"kills": levels[0].kills if levels else 0}
    if nearest is None or nearest.left is None or nearest.limit is None:
        summary = "no cgroup limits the memory of this job"
        return CheckResult(summary=summary, problems=tuple(problems), figures=figures)
    summary = f"{size(nearest.left)} are left of the {size(nearest.limit)} of its cgroup"
    figures |= {"limit": nearest.limit, "left": nearest.left}
    if nearest.swap is not None:
        figures["swap_limit"] = nearest.swap
    severity = memory_severity(nearest.left, context.workload)
    if severity is not None:
        evidence = (Evidence(file=str(nearest.limit_file), excerpt=str(nearest.limit)),)
        problems.append(problem(CGROUP_MEMORY_LOW, summary, severity=severity, evidence=evidence))
    return CheckResult(summary=summary, problems=tuple(problems), figures=figures)


def read_levels(cgroups: CgroupLevels) -> Iterable[MemoryLevel]:
    """The memory of each level that shows it. A level without the controller has no limit."""
    read = _read_v2 if cgroups.version == 2 else _read_v1
    for directory in cgroups.directories:
        level = read(directory)
        if level is not None:
            yield level


def _read_v2(directory: Path) -> MemoryLevel | None:
    current = _current(directory / "memory.current", directory / "memory.max")
    if current is None:
        return None
    inactive = numbers_of(directory / "memory.stat").get("inactive_file", 0)
    return MemoryLevel(
        directory=directory,
        limit_file=directory / "memory.max",
        limit=limit_of(directory / "memory.max"),
        high=limit_of(directory / "memory.high"),
        used=max(0, current - inactive),
        swap=limit_of(directory / "memory.swap.max"),
        kills=numbers_of(directory / "memory.events").get("oom_kill", 0),
    )


def _read_v1(directory: Path) -> MemoryLevel | None:
    limit_file = directory / "memory.limit_in_bytes"
    current = _current(directory / "memory.usage_in_bytes", limit_file)
    if current is None:
        return None
    inactive = numbers_of(directory / "memory.stat").get("total_inactive_file", 0)
    limit = limit_of(limit_file)
    both = limit_of(directory / "memory.memsw.limit_in_bytes")
    return MemoryLevel(
        directory=directory,
        limit_file=limit_file,
        limit=limit,
        high=None,
        used=max(0, current - inactive),
        swap=None if limit is None or both is None else both - limit,
        kills=numbers_of(directory / "memory.oom_control").get("oom_kill", 0),
    )


def _current(usage_file: Path, limit_file: Path) -> int | None:
    """The bytes in use; None for a level without the controller, which has no such file.

    Raises UndeterminedError if the files of a level that has it cannot be read.
    """
    current = number_of(usage_file)
    if current is None and not usage_file.exists():
        return None
    if current is None or not text_of(limit_file):
        raise UndeterminedError(f"the memory limit of {limit_file.parent} cannot be read")
    return current


def _throttled(levels: Iterable[MemoryLevel]) -> list[Problem]:
    problems = []
    for level in levels:
        if level.high is not None and level.used >= level.high * _AT_HIGH:
            summary = f"{size(level.used)} are in use, and memory.high is {size(level.high)}"
            file = level.directory / "memory.high"
            evidence = (Evidence(file=str(file), excerpt=str(level.high)),)
            problems.append(problem(CGROUP_MEMORY_THROTTLED, summary, evidence=evidence))
    return problems


def _earlier_kills(levels: list[MemoryLevel]) -> list[Problem]:
    """Those of our own cgroup: the counters above it count for other jobs, too."""
    if not levels or not levels[0].kills:
        return []
    own = levels[0]
    count = amount(own.kills, "process") if own.kills == 1 else f"{own.kills} processes"
    summary = f"the kernel has killed {count} of this cgroup for lack of memory"
    evidence = (Evidence(file=str(own.directory), excerpt=f"oom_kill {own.kills}"),)
    return [problem(EARLIER_OOM_KILLS, summary, evidence=evidence)]


CHECK = DoctorCheck(
    id="machine/cgroup-memory",
    title="memory limits of the container or cgroup",
    needed_for=ALL,
    run=_run,
)
