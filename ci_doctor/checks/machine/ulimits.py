# SPDX-License-Identifier: Apache-2.0
"""Reads the resource limits of this process (ulimit), which the job inherits."""

import resource
from collections.abc import Callable, Mapping

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.kernel_files import numbers_of
from ci_doctor.checks.machine.rules import ULIMIT_LOW
from ci_doctor.checks.settings import SERVING
from ci_doctor.model.finding import NextStep, Severity, ShellCommand
from ci_doctor.render.formatting import size

_INFINITY = resource.RLIM_INFINITY
_MIB = 2**20
# A connection is a file. What vLLM itself raises the soft limit to, and what must be there at least.
_FILES_FOR_SERVING = 65535
_FILES = 4096
_LEAST_FILES = 1024
# glibc gives each thread a stack of this limit (pthread_create(3)).
_STACK = 2 * _MIB


class ResourceLimit(Struct, frozen=True, kw_only=True):
    """A soft and a hard limit (getrlimit(2)); resource.RLIM_INFINITY is none."""

    soft: int
    hard: int

    @property
    def is_unlimited(self) -> bool:
        """Whether the soft limit is none."""
        return self.soft == _INFINITY

    def shown(self) -> str:
        """`4096`, or `unlimited`."""
        return "unlimited" if self.is_unlimited else str(self.soft)


_NAMES: Mapping[str, int] = {
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "memlock": resource.RLIMIT_MEMLOCK,
    "stack": resource.RLIMIT_STACK,
    "core": resource.RLIMIT_CORE,
    "as": resource.RLIMIT_AS,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
}
Limits = Mapping[str, ResourceLimit]


def read_limits() -> Limits:
    """The limits of this process by the names of limits.conf(5)."""
    limits = {}
    for name, number in _NAMES.items():
        soft, hard = resource.getrlimit(number)
        limits[name] = ResourceLimit(soft=soft, hard=hard)
    return limits


def _run(context: CheckContext) -> CheckResult:
    limits = read_limits()
    problems = problems_of(limits, context)
    summary = f"{limits['nofile'].shown()} files may be open"
    figures = {name: limit.shown() for name, limit in limits.items()}
    return CheckResult(summary=summary, problems=tuple(problems), figures=figures)


def problems_of(limits: Limits, context: CheckContext) -> list[Problem]:
    """What is too low in `limits` for the workload of the context."""
    problems = []
    for judge in _JUDGES:
        judged = judge(limits, context)
        if judged is not None:
            problems.append(judged)
    return problems


def _files(limits: Limits, context: CheckContext) -> Problem | None:
    """Many shells have 1024; servers raise that themselves as far as the hard limit lets them."""
    files = limits["nofile"]
    if files.is_unlimited or files.soft >= _FILES:
        return None
    serves = context.workload in SERVING or bool(context.services)
    can_be_raised = files.hard == _INFINITY or files.hard >= _FILES
    if can_be_raised and files.soft >= _LEAST_FILES and not serves:
        return None
    summary = f"{files.soft} files may be open (ulimit -n), a server under load needs {_FILES}"
    if can_be_raised:
        return problem(ULIMIT_LOW, summary, remedy=ShellCommand(f"ulimit -n {_raised(files)}"))
    summary += f"; the hard limit is {files.hard}"
    return problem(ULIMIT_LOW, summary, remedy=_by_the_container("nofile=65535"))


def _raised(files: ResourceLimit) -> int:
    if files.hard == _INFINITY:
        return _FILES_FOR_SERVING
    return min(files.hard, _FILES_FOR_SERVING)


def _stack(limits: Limits, _context: CheckContext) -> Problem | None:
    stack = limits["stack"]
    if stack.is_unlimited or stack.soft >= _STACK:
        return None
    summary = (
        f"the stack of each thread is {size(stack.soft)} (ulimit -s): native code overflows it"
    )
    return problem(ULIMIT_LOW, summary, remedy=ShellCommand("ulimit -s 8192"))


def _address_space(limits: Limits, context: CheckContext) -> Problem | None:
    """CUDA maps the memory of all GPUs and of the host into one address space."""
    space = limits["as"]
    memory = numbers_of(context.proc / "meminfo").get("MemTotal", 0) * 1024
    if space.is_unlimited or space.soft >= 2 * memory > 0:
        return None
    summary = (
        f"the address space is limited to {size(space.soft)} (ulimit -v): CUDA reserves far more"
    )
    return problem(ULIMIT_LOW, summary, remedy=ShellCommand("ulimit -v unlimited"))


def _data(limits: Limits, _context: CheckContext) -> Problem | None:
    data = limits["data"]
    if data.is_unlimited:
        return None
    summary = f"each process may have {size(data.soft)} of data (ulimit -d), whatever is free"
    return problem(ULIMIT_LOW, summary, remedy=ShellCommand("ulimit -d unlimited"))


def _file_size(limits: Limits, _context: CheckContext) -> Problem | None:
    largest = limits["fsize"]
    if largest.is_unlimited:
        return None
    summary = f"a file may have {size(largest.soft)} (ulimit -f): a larger write ends the program"
    return problem(ULIMIT_LOW, summary, remedy=ShellCommand("ulimit -f unlimited"))


def _locked_memory(limits: Limits, context: CheckContext) -> Problem | None:
    """RDMA registers memory, which locks it. CUDA's pinned memory does not count here."""
    locked = limits["memlock"]
    if locked.is_unlimited or not (context.dev / "infiniband").exists():
        return None
    summary = (
        f"{size(locked.soft)} of memory may be locked (ulimit -l): RDMA needs all that it registers"
    )
    severity = Severity.WARNING if context.workload in SERVING else Severity.NOTE
    remedy = _by_the_container("memlock=-1")
    return problem(ULIMIT_LOW, summary, remedy=remedy, severity=severity)


def _by_the_container(limit: str) -> NextStep:
    return f"Start the container with `--ulimit {limit}`, or set it in /etc/security/limits.conf."


_JUDGES: tuple[Callable[[Limits, CheckContext], Problem | None], ...] = (
    _files,
    _stack,
    _address_space,
    _data,
    _file_size,
    _locked_memory,
)

CHECK = DoctorCheck(
    id="machine/ulimits",
    title="resource limits (ulimit)",
    needed_for=SERVING,
    run=_run,
)
