# SPDX-License-Identifier: Apache-2.0
"""Reads how many processes and threads can still be started: cgroup, kernel, and ulimit."""

import contextlib
import os
import resource
from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.cgroups import read_cgroups
from ci_doctor.checks.machine.kernel_files import number_of, text_of
from ci_doctor.checks.machine.rules import PROCESSES_LOW
from ci_doctor.checks.settings import SERVING
from ci_doctor.model.finding import Severity
from ci_doctor.system.processes.memory_events import limit_of

# A server with workers has some hundreds of threads, and compilers beside it.
_FEW = 1000
_NONE = 100


class ProcessLimit(Struct, frozen=True, kw_only=True):
    """A limit on processes and threads, where it stands, and how many of it are in use."""

    name: str
    limit: int
    used: int

    @property
    def left(self) -> int:
        """How many more can be started."""
        return max(0, self.limit - self.used)


def _run(context: CheckContext) -> CheckResult:
    limits = list(_of_the_user(context))
    reasons = []
    for read in (_of_the_kernel, _of_cgroups):
        try:
            limits.extend(read(context))
        except UndeterminedError as error:
            reasons.append(str(error))
    unknown = "; ".join(reasons) or None
    if not limits:
        summary = "no limit on processes is in view"
        return CheckResult(summary=summary, unknown=unknown)
    nearest = min(limits, key=lambda limit: limit.left)
    summary = f"{nearest.left} more processes and threads can be started"
    severity = severity_of(nearest.left)
    problems: tuple[Problem, ...] = ()
    if severity is not None:
        sentence = f"{summary}: {nearest.used} of {nearest.limit} exist ({nearest.name})"
        problems = (problem(PROCESSES_LOW, sentence, severity=severity),)
    figures = {each.name: each.left for each in limits}
    return CheckResult(summary=summary, problems=problems, unknown=unknown, figures=figures)


def severity_of(left: int) -> Severity | None:
    """How bad it is that so many more can be started; None if it is not."""
    if left < _NONE:
        return Severity.ERROR
    if left < _FEW:
        return Severity.WARNING
    return None


def _of_cgroups(context: CheckContext) -> Iterable[ProcessLimit]:
    for directory in read_cgroups(context, "pids").directories:
        limit = limit_of(directory / "pids.max")
        used = number_of(directory / "pids.current")
        if limit is not None and used is not None:
            yield ProcessLimit(name=f"{directory}/pids.max", limit=limit, used=used)


def _of_the_kernel(context: CheckContext) -> Iterable[ProcessLimit]:
    """Threads count for pid_max, too: each has a number of its own."""
    used = _threads(context)
    if used is None:
        raise UndeterminedError(f"{context.proc}/loadavg does not count the threads")
    for name in ("pid_max", "threads-max"):
        limit = number_of(context.proc / "sys" / "kernel" / name)
        if limit is not None:
            yield ProcessLimit(name=f"kernel.{name}", limit=limit, used=used)


def _of_the_user(context: CheckContext) -> Iterable[ProcessLimit]:
    """RLIMIT_NPROC counts the threads of this user.

    The kernel does not hold root to it (setrlimit(2)), so there is no such limit for root.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == resource.RLIM_INFINITY or os.geteuid() == 0:
        return
    used = _threads(context)
    # The threads of all users are known at once. Only if they may be too many, ours are counted.
    if used is None or soft - used < _FEW:
        used = _own_threads(context)
    yield ProcessLimit(name="ulimit -u", limit=soft, used=used)


def _own_threads(context: CheckContext) -> int:
    """The threads of this user in view. A container does not see those of other containers."""
    count = 0
    for process in context.proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if process.stat().st_uid == os.geteuid():
                count += len(os.listdir(process / "task"))  # noqa: PTH208 - names are enough
    return count


def _threads(context: CheckContext) -> int | None:
    """The threads of the machine: the fourth field of /proc/loadavg, after the slash (proc(5))."""
    words = (text_of(context.proc / "loadavg") or "").split()
    if len(words) < 4:
        return None
    _, _, threads = words[3].partition("/")
    if not threads.isdecimal():
        return None
    return int(threads)


CHECK = DoctorCheck(
    id="machine/processes",
    title="processes and threads that can still be started",
    needed_for=SERVING,
    run=_run,
)
