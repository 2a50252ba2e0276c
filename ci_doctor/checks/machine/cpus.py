# SPDX-License-Identifier: Apache-2.0
"""Reads how many CPUs this job may use: its affinity, its cpuset, its cgroup's quota."""

import os
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.cgroups import CgroupLevels, read_cgroups
from ci_doctor.checks.machine.kernel_files import number_of, numbers_of, text_of
from ci_doctor.checks.machine.rules import CPU_QUOTA_BELOW_COUNT, FEW_CPUS
from ci_doctor.checks.settings import SERVING
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import number, percent

# So many threads for each CPU of the quota, and most of the time all of them stand still.
_FAR_BELOW = 4
_FEW = 2


class CpuQuota(Struct, frozen=True, kw_only=True):
    """The smallest quota in view, in CPUs, and its file.

    The cgroup was stopped in `throttled` of so many `periods`.
    """

    file: Path
    cpus: float
    throttled: int
    periods: int


def _run(context: CheckContext) -> CheckResult:
    visible = len(os.sched_getaffinity(0))
    total = os.cpu_count() or visible
    summary = f"{visible} of {total} CPUs may be used"
    quota = None
    unknown = None
    try:
        quota = smallest_quota(read_cgroups(context, "cpu"))
    except UndeterminedError as error:
        unknown = str(error)
    figures: dict[str, float] = {"visible": visible, "total": total}
    usable = float(visible)
    problems = []
    if quota is not None:
        summary += f", for {number(quota.cpus)} CPUs of time"
        usable = min(usable, quota.cpus)
        figures |= {"quota": quota.cpus, "throttled": quota.throttled, "periods": quota.periods}
        problems.extend(_of_the_quota(quota, visible, context))
    nodes = text_of(context.sys / "devices" / "system" / "node" / "online")
    if nodes and nodes != "0":
        summary += f", NUMA nodes {nodes}"
    if context.workload in SERVING and usable < _FEW:
        problems.append(problem(FEW_CPUS, summary))
    return CheckResult(summary=summary, problems=tuple(problems), unknown=unknown, figures=figures)


def _of_the_quota(quota: CpuQuota, visible: int, context: CheckContext) -> list[Problem]:
    """A problem if libraries would start far more threads than the quota runs."""
    if visible < _FAR_BELOW * quota.cpus or context.environ.get("OMP_NUM_THREADS"):
        return []
    summary = (
        f"programs see {visible} CPUs, and the cgroup runs {number(quota.cpus)} of them at a time"
    )
    if quota.throttled and quota.periods:
        share = percent(quota.throttled / quota.periods)
        summary += f"; it has been stopped in {share} of its periods"
    threads = max(1, int(quota.cpus))
    remedy = ShellCommand(f"export OMP_NUM_THREADS={threads}")
    evidence = (Evidence(file=str(quota.file), excerpt=f"{number(quota.cpus)} CPUs"),)
    return [problem(CPU_QUOTA_BELOW_COUNT, summary, remedy=remedy, evidence=evidence)]


def smallest_quota(cgroups: CgroupLevels) -> CpuQuota | None:
    """The quota that bites first; None if no level has one."""
    smallest = None
    for directory in cgroups.directories:
        if cgroups.version == 2:
            file = directory / "cpu.max"
            quota, period = _two_numbers(text_of(file) or "")
        else:
            file = directory / "cpu.cfs_quota_us"
            quota = number_of(file)
            period = number_of(directory / "cpu.cfs_period_us")
        # v1 writes -1 for none.
        if not quota or not period or quota < 0:
            continue
        cpus = round(quota / period, 2)
        if smallest is None or cpus < smallest.cpus:
            counters = numbers_of(directory / "cpu.stat")
            smallest = CpuQuota(
                file=file,
                cpus=cpus,
                throttled=counters.get("nr_throttled", 0),
                periods=counters.get("nr_periods", 0),
            )
    return smallest


def _two_numbers(text: str) -> tuple[int | None, int | None]:
    """`100000 100000` of cpu.max (microseconds); `max 100000` is no quota."""
    words = text.split()
    if len(words) != 2 or not words[0].isdecimal() or not words[1].isdecimal():
        return None, None
    return int(words[0]), int(words[1])


CHECK = DoctorCheck(
    id="machine/cpus",
    title="CPUs that the job may use",
    run=_run,
)
