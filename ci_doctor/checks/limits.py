# SPDX-License-Identifier: Apache-2.0
"""Reads what this job may use: memory, CPUs, processes; of the machine, its cgroups, and by ulimit; and the clock."""

import contextlib
import os
import re
import resource
import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    Findings,
    Need,
    Problem,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.settings import ALL, SERVING, Workload
from ci_doctor.machine.host import (
    ResourceLimit,
    UnknownCgroupError,
    content_of,
    kernel_parameter_file,
    memory_levels,
    number_of,
    numbers_of,
    read_cgroups,
    resource_limits,
    smallest_quota,
)
from ci_doctor.model.outcome import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import duration, number, size
from ci_doctor.system.processes.kernel_words import limit_of

_MIB = 2**20

MEMORY_LOW: Final = Rule(
    id="doctor/memory-low",
    severity=Severity.WARNING,
    meaning="The machine has little memory left for new processes, so the kernel may soon kill one.",
    remedy="See what holds it, and end what is left over from earlier jobs.",
)
# It shows names and no arguments: these may hold secrets.
LARGEST_PROCESSES = "end what is of no use among the largest processes: `ps axo pid,user,rss,comm --sort=-rss | head`"


@check("machine/memory", title="memory that the machine has left", needed_for=ALL)
def memory(context: CheckContext) -> Findings:
    kib = numbers_of(context.proc / "meminfo")
    # Linux 3.14; it counts what the kernel can take back from its caches.
    if "MemAvailable" not in kib or "MemTotal" not in kib:
        raise UndeterminedError(f"{context.proc}/meminfo does not say how much memory is available")
    available, total = kib["MemAvailable"] * 1024, kib["MemTotal"] * 1024
    swap, swap_free = kib.get("SwapTotal", 0) * 1024, kib.get("SwapFree", 0) * 1024
    summary = f"{size(available)} of {size(total)} memory are available"
    if swap:
        summary += f", {size(swap - swap_free)} of {size(swap)} swap are in use"
    severity = memory_severity(available, context.workload)
    if severity is not None:
        yield problem(MEMORY_LOW, summary, severity=severity, remedy=LARGEST_PROCESSES)
    return CheckResult(
        summary=summary,
        figures={"available": available, "total": total, "swap": swap, "swap_free": swap_free},
    )


def memory_severity(available: int, workload: Workload | None) -> Severity | None:
    """How bad it is that so many bytes are available; None if it is not.

    Below 256 MiB nothing starts; a server loads weights through gigabytes of host memory.
    """
    if available < 256 * _MIB:
        return Severity.ERROR
    little = 4096 * _MIB if workload in SERVING else 1024 * _MIB
    return Severity.WARNING if available < little else None


CGROUP_MEMORY_LOW: Final = Rule(
    id="doctor/cgroup-memory-low",
    severity=Severity.WARNING,
    meaning="The cgroup of this job (a container, a pod) has little of its memory limit left. The "
    "kernel kills a process of it at the limit, however much the machine has.",
    remedy="Raise the memory limit of the step or container, or end what runs in it already.",
)


@check("machine/cgroup-memory", title="memory limits of the container or cgroup", needed_for=ALL)
def cgroup_memory(context: CheckContext) -> Findings:
    try:
        levels = list(memory_levels(read_cgroups("memory", context.root)))
    except UnknownCgroupError as error:
        raise UndeterminedError(str(error)) from error
    limited = [(level.left, level) for level in levels if level.left is not None]
    if not limited:
        return "no cgroup limits the memory of this job"
    left, nearest = min(limited, key=lambda pair: pair[0])
    limit = nearest.limit or 0
    summary = f"{size(left)} are left of the {size(limit)} of its cgroup"
    figures = {"limit": limit, "left": left}
    severity = memory_severity(left, context.workload)
    if severity is not None:
        yield problem(
            CGROUP_MEMORY_LOW,
            summary,
            severity=severity,
            evidence=(Evidence(file=str(nearest.limit_file), excerpt=str(limit)),),
        )
    return CheckResult(summary=summary, figures=figures)


CPU_QUOTA_BELOW_COUNT: Final = Rule(
    id="doctor/cpu-quota-below-count",
    severity=Severity.WARNING,
    meaning="The cgroup's CPU quota is far below the number of CPUs that programs see. Libraries "
    "start a thread per CPU, and the kernel then stops all of them for most of the time.",
    remedy="Set OMP_NUM_THREADS to the quota, or give the container a cpuset in place of a quota.",
)
FEW_CPUS: Final = Rule(
    id="doctor/few-cpus",
    severity=Severity.WARNING,
    meaning="This job may use less than two CPUs: a server's API process and its engine take turns.",
    remedy="Raise the CPU limit of the step or container.",
)
# So many threads for each CPU of the quota, and most of the time all of them stand still.
_FAR_BELOW = 4


@check("machine/cpus", title="CPUs that the job may use")
def cpus(context: CheckContext) -> Findings:
    visible = len(os.sched_getaffinity(0))
    total = os.cpu_count() or visible
    summary = f"{visible} of {total} CPUs may be used"
    figures: dict[str, float] = {"visible": visible, "total": total}
    quota = unknown = None
    try:
        quota = smallest_quota(read_cgroups("cpu", context.root))
    except UnknownCgroupError as error:
        unknown = str(error)
    if quota is not None:
        summary += f", for {number(quota.cpus)} CPUs of time"
        figures["quota"] = quota.cpus
        # Libraries would start far more threads than the quota runs.
        if visible >= _FAR_BELOW * quota.cpus and not context.environ.get("OMP_NUM_THREADS"):
            words = f"programs see {visible} CPUs, and the cgroup runs {number(quota.cpus)} of them at a time"
            yield problem(
                CPU_QUOTA_BELOW_COUNT,
                words,
                remedy=ShellCommand(f"export OMP_NUM_THREADS={max(1, int(quota.cpus))}"),
                evidence=(Evidence(file=str(quota.file), excerpt=f"{number(quota.cpus)} CPUs"),),
            )
    nodes = content_of(context.sys / "devices" / "system" / "node" / "online").strip()
    if nodes and nodes != "0":
        summary += f", NUMA nodes {nodes}"
    usable = visible if quota is None else min(visible, quota.cpus)
    if context.workload in SERVING and usable < 2:
        yield problem(FEW_CPUS, summary)
    return CheckResult(summary=summary, unknown=unknown, figures=figures)


PROCESSES_LOW: Final = Rule(
    id="doctor/processes-low",
    severity=Severity.WARNING,
    meaning="Few processes and threads can still be started here: a limit on their number is near. "
    "A server with workers has some hundreds of threads, and compilers beside it. Messages are "
    "`Resource temporarily unavailable` and `can't start new thread`.",
    remedy="Raise the limit (`--pids-limit` of the container), or end what runs there already.",
)
# A server with workers has some hundreds of threads, and compilers beside it.
_FEW, _NONE = 1000, 100


class ProcessLimit(NamedTuple):
    """How many more processes and threads a limit leaves, and how many of it are in use."""

    left: int
    used: int
    limit: int
    name: str


@check(
    "machine/processes",
    title="processes and threads that can still be started",
    needed_for=SERVING,
)
def processes(context: CheckContext) -> Findings:
    limits, reasons = _process_limits(context)
    unknown = "; ".join(reasons) or None
    if not limits:
        return CheckResult(summary="no limit on processes is in view", unknown=unknown)
    nearest = min(limits)
    summary = f"{nearest.left} more processes and threads can be started"
    severity = process_severity(nearest.left)
    if severity is not None:
        yield problem(
            PROCESSES_LOW,
            f"{summary}: {nearest.used} of {nearest.limit} exist ({nearest.name})",
            severity=severity,
        )
    return CheckResult(
        summary=summary, unknown=unknown, figures={each.name: each.left for each in limits}
    )


def _process_limits(context: CheckContext) -> tuple[list[ProcessLimit], list[str]]:
    """The limits in view, and why others are not known."""
    limits: list[ProcessLimit] = []
    reasons = []

    def add(name: str, limit: int | None, used: int | None) -> None:
        if limit is not None and used is not None:
            limits.append(ProcessLimit(max(0, limit - used), used, limit, name))

    # The threads of the machine: the fourth field, after the slash (proc(5)).
    words = content_of(context.proc / "loadavg").split()
    count = words[3].partition("/")[2] if len(words) > 3 else ""
    threads = int(count) if count.isdecimal() else None
    # Threads count for pid_max, too: each has a number of its own.
    for name in ("pid_max", "threads-max"):
        add(f"kernel.{name}", number_of(context.proc / "sys" / "kernel" / name), threads)
    if threads is None:
        reasons.append(f"{context.proc}/loadavg does not count the threads")
    try:
        for directory in read_cgroups("pids", context.root).directories:
            add(
                f"{directory}/pids.max",
                limit_of(directory / "pids.max"),
                number_of(directory / "pids.current"),
            )
    except UnknownCgroupError as error:
        reasons.append(str(error))
    # RLIMIT_NPROC counts the threads of this user, and does not hold root (setrlimit(2)).
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:
        # The threads of all users are known at once. Only if they may be too many, ours are counted.
        is_far = threads is not None and soft - threads >= _FEW
        add("ulimit -u", soft, threads if is_far else _own_threads(context))
    return limits, reasons


def process_severity(left: int) -> Severity | None:
    """How bad it is that so many more can be started; None if it is not."""
    if left < _NONE:
        return Severity.ERROR
    return Severity.WARNING if left < _FEW else None


def _own_threads(context: CheckContext) -> int:
    """The threads of this user in view. A container does not see those of other containers."""
    count = 0
    for process in context.proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if process.stat().st_uid == os.geteuid():
                count += len(os.listdir(process / "task"))  # noqa: PTH208 - names are enough
    return count


ULIMIT_LOW: Final = Rule(
    id="doctor/ulimit-low",
    severity=Severity.WARNING,
    meaning="A resource limit of this process (ulimit) is lower than a server under load needs.",
    remedy="Raise it in the shell before the job, or for the container by `--ulimit`.",
)
# A connection is a file. What vLLM itself raises the soft limit to, and what must be there at least.
_FILES_FOR_SERVING, _FILES, _LEAST_FILES = 65535, 4096, 1024
_BY_THE_CONTAINER = (
    "Start the container with `--ulimit {0}`, or set it in /etc/security/limits.conf."
)


@check("machine/ulimits", title="resource limits (ulimit)", needed_for=SERVING)
def ulimits(context: CheckContext) -> Findings:
    limits = resource_limits()
    yield from low_limits(limits, context)
    return CheckResult(
        summary=f"{limits['nofile'].shown()} files may be open",
        figures={name: limit.shown() for name, limit in limits.items()},
    )


def low_limits(limits: Mapping[str, ResourceLimit], context: CheckContext) -> Iterator[Problem]:
    """What is too low in `limits` for the workload of the context."""
    files = limits["nofile"]
    can_be_raised = files.hard == resource.RLIM_INFINITY or files.hard >= _FILES
    serves = context.workload in SERVING or bool(context.services)
    # Many shells have 1024; servers raise that themselves as far as the hard limit lets them.
    is_usual = can_be_raised and files.soft >= _LEAST_FILES and not serves
    if not files.is_unlimited and files.soft < _FILES and not is_usual:
        words = f"{files.soft} files may be open (ulimit -n), a server under load needs {_FILES}"
        if can_be_raised:
            hard = _FILES_FOR_SERVING if files.hard == resource.RLIM_INFINITY else files.hard
            yield problem(
                ULIMIT_LOW, words, remedy=ShellCommand(f"ulimit -n {min(hard, _FILES_FOR_SERVING)}")
            )
        else:
            words += f"; the hard limit is {files.hard}"
            yield problem(ULIMIT_LOW, words, remedy=_BY_THE_CONTAINER.format("nofile=65535"))
    # CUDA maps the memory of all GPUs and of the host into one address space.
    space = limits["as"]
    total = numbers_of(context.proc / "meminfo").get("MemTotal", 0) * 1024
    if not space.is_unlimited and not space.soft >= 2 * total > 0:
        yield problem(
            ULIMIT_LOW,
            f"the address space is limited to {size(space.soft)} (ulimit -v): CUDA reserves far more",
            remedy=ShellCommand("ulimit -v unlimited"),
        )
    locked = limits["memlock"]
    # RDMA registers memory, which locks it. CUDA's pinned memory does not count here.
    if not locked.is_unlimited and (context.dev / "infiniband").exists():
        yield problem(
            ULIMIT_LOW,
            f"{size(locked.soft)} of memory may be locked (ulimit -l): RDMA needs all that it registers",
            remedy=_BY_THE_CONTAINER.format("memlock=-1"),
            severity=Severity.WARNING if context.workload in SERVING else Severity.NOTE,
        )


CLOCK_BEHIND: Final = Rule(
    id="doctor/clock-behind",
    severity=Severity.ERROR,
    meaning="The clock is earlier than the commit that is checked out: it is wrong here, or was wrong "
    "where the commit was made. Certificates may not be valid yet.",
    remedy="Set the clock: `timedatectl set-ntp true`, on the host if this is a container.",
)
# The clock of the machine that made the commit may be a little fast.
_TOLERATED_S = 300.0
_WRONG_S = 3600.0
# linux/timex.h
_STA_UNSYNC = 0x0040
_COMMITTER = re.compile(r"^committer .* (\d+) [+-]\d{4}$", re.MULTILINE)


@check(
    "machine/clock",
    title="the clock, against the date of the commit",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def clock(context: CheckContext) -> Findings:
    # Reading one object starts no hook and no program, so another owner's checkout is safe to read.
    ran = context.run(["git", "-c", "safe.directory=*", "cat-file", "commit", "HEAD"])
    match = _COMMITTER.search(ran.stdout)
    if match is None:
        raise UndeterminedError("git does not say the date of the commit")
    unknown, is_kept = None, False
    try:
        is_kept = is_clock_kept()
    except UndeterminedError as error:
        unknown = str(error)
    yield from wrong_clock(float(match[1]) - time.time(), is_kept=is_kept)
    keeper = (
        "a program keeps the clock right" if is_kept else "no program is known to keep it right"
    )
    return CheckResult(summary=f"the clock was compared with the commit; {keeper}", unknown=unknown)


def wrong_clock(behind_s: float, *, is_kept: bool) -> Iterator[Problem]:
    """What it means that the commit was made `behind_s` after the time that the clock shows.

    With a keeper, the date is wrong rather than the clock: git takes any date for a commit.
    """
    if behind_s > _TOLERATED_S:
        summary = f"the clock is {duration(behind_s)} behind the commit that is checked out"
        if is_kept:
            summary += ", and a program keeps the clock right"
        is_wrong = behind_s > _WRONG_S and not is_kept
        yield problem(
            CLOCK_BEHIND, summary, severity=Severity.ERROR if is_wrong else Severity.WARNING
        )


def is_clock_kept() -> bool:
    """Whether a program tells the kernel that it keeps the clock right.

    adjtimex(2), which changes nothing this way. Raises UndeterminedError if there is no answer.
    """
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    # Of struct timex: modes, offset, freq, maxerror, esterror, status. The kernel fills 208 bytes on
    # 64 bits; there is room for more. Zeros: `modes` 0 reads only.
    buffer = ctypes.create_string_buffer(512)
    if not hasattr(libc, "adjtimex") or libc.adjtimex(buffer) < 0:
        reason = os.strerror(ctypes.get_errno())
        raise UndeterminedError(
            f"the kernel does not say whether its clock is synchronised: {reason}"
        )
    status: int = struct.unpack_from("@Illlli", buffer.raw)[-1]
    return not status & _STA_UNSYNC


STRICT_OVERCOMMIT: Final = Rule(
    id="doctor/strict-overcommit",
    severity=Severity.WARNING,
    meaning="The kernel counts reserved memory as used (vm.overcommit_memory is 2). CUDA and torch "
    "reserve far more than they use, and fail with memory free.",
    remedy="sysctl vm.overcommit_memory=0",
)


@check("machine/overcommit", title="whether the kernel lets programs reserve memory")
def overcommit(context: CheckContext) -> Findings:
    value = number_of(kernel_parameter_file("vm.overcommit_memory", context.root))
    if value is None:
        raise UndeterminedError("vm.overcommit_memory cannot be read")
    summary = f"vm.overcommit_memory is {value}"
    if value == 2:
        memory = numbers_of(context.proc / "meminfo")
        if "CommitLimit" in memory and "Committed_AS" in memory:
            left = max(0, memory["CommitLimit"] - memory["Committed_AS"]) * 1024
            summary += f", and {size(left)} more may be reserved"
        yield problem(
            STRICT_OVERCOMMIT, summary, remedy=ShellCommand("sysctl vm.overcommit_memory=0")
        )
    return summary
