# SPDX-License-Identifier: Apache-2.0
"""Pure. Whose a process is: this job's, another job's that still runs, or nobody's any more."""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:  # that module reads /proc
    from ci_doctor.checks.processes import RunningProcess

# What adopts orphans and starts no server itself.
_INITS: Final = frozenset(
    {"systemd", "init", "tini", "docker-init", "dumb-init", "catatonit", "s6-svscan", "runsv"}
)
AGENT: Final = "buildkite-agent"
_FIRST_PID: Final = 1


class ProcessStanding(Enum):
    """Whose a process is."""

    OURS = "ours"
    OTHERS = "of another job that runs"
    STALE = "left"
    MANAGED = "of a service manager"
    UNKNOWN = "unknown"


class Surroundings(Struct, frozen=True, kw_only=True):
    """Who asks, and what runs around it.

    `pid` and `job` are ours (None: no Buildkite job). `running_jobs` are those that an agent on this
    machine runs; `sees_agents`: there is an agent, so that these are all. `jobs` has the job of
    each process (None: unknown, or of none). `is_managed` tells whether a service manager or a
    container runtime has started a process apart from us.
    """

    pid: int
    job: str | None
    running_jobs: frozenset[str]
    sees_agents: bool
    jobs: Mapping[int, str | None]
    is_managed: Callable[[int], bool]


def standing_of(
    process: "RunningProcess",
    job: str | None,
    around: Surroundings,
    table: "Mapping[int, RunningProcess]",
) -> ProcessStanding:
    """Whose `process` is, if `job` is its Buildkite job (None: unknown, or of none)."""
    if job is not None and job == around.job:
        return ProcessStanding.OURS
    if job is None and _is_of_our_kin(process, around.pid, table):
        return ProcessStanding.OURS
    if job in around.running_jobs or _is_below_agent(process, table):
        return ProcessStanding.OTHERS
    if around.is_managed(process.pid):
        return ProcessStanding.MANAGED
    # No agent runs its job any more, whoever its parent is by now.
    has_ended = job is not None and around.job is not None and around.sees_agents
    if has_ended or _is_orphan(process, table) or _is_adopted(process, job, around, table):
        return ProcessStanding.STALE
    return ProcessStanding.UNKNOWN


def _is_of_our_kin(
    process: "RunningProcess", own_pid: int, table: "Mapping[int, RunningProcess]"
) -> bool:
    """Whether it shares our session, or descends from a process above us.

    The first process, inits and agents do not count: an agent may run several jobs at once.
    """
    own = table.get(own_pid)
    if own is not None and process.session == own.session:
        return True
    above = set()
    for pid in (own_pid, *_ancestors(own_pid, table)):
        is_known = pid in table and pid != _FIRST_PID
        if is_known and table[pid].kin.name not in {*_INITS, AGENT}:
            above.add(pid)
    return process.pid in above or not above.isdisjoint(_ancestors(process.pid, table))


def _is_below_agent(process: "RunningProcess", table: "Mapping[int, RunningProcess]") -> bool:
    return any(table[pid].kin.name == AGENT for pid in _ancestors(process.pid, table))


def _is_orphan(process: "RunningProcess", table: "Mapping[int, RunningProcess]") -> bool:
    """Whether an init has adopted it; one of a user adopts as the first process does.

    The first process of a container may be no init and start servers by itself. Below it, a process
    is an orphan if the leader of its group is gone: the shell that started both.
    """
    parent = table.get(process.kin.parent)
    if parent is None:
        return process.pid != _FIRST_PID
    if parent.kin.name in _INITS:
        return True
    if parent.pid != _FIRST_PID:
        return False
    return process.group not in table or process.session not in table


def _is_adopted(
    process: "RunningProcess",
    job: str | None,
    around: Surroundings,
    table: "Mapping[int, RunningProcess]",
) -> bool:
    """Whether the first process has it as a child, and cannot have started it; or one above it.

    The environment of a child begins as that of its parent. One of another job has come to the first
    process because its own parent has ended, whatever program that first process is.
    """
    if job is None or job == around.jobs.get(_FIRST_PID):
        return False
    for pid in (process.pid, *_ancestors(process.pid, table)):
        if around.jobs.get(pid) == job and table[pid].kin.parent == _FIRST_PID:
            return True
    return False


def _ancestors(pid: int, table: "Mapping[int, RunningProcess]") -> Iterator[int]:
    """The parent, its parent, and so on, as far as the table shows them."""
    met = {pid}
    process = table.get(pid)
    while process is not None and process.kin.parent not in met:
        parent = process.kin.parent
        # A pid that is used anew while the table is read must not lead in a circle.
        met.add(parent)
        process = table.get(parent)
        if process is not None:
            yield parent
