# SPDX-License-Identifier: Apache-2.0
"""Reads processes: the tree of an external process, and who else listens on its port."""

from collections.abc import Sequence
from pathlib import Path

from ci_doctor.services.descendants import DescendantWatch
from ci_doctor.services.ports import PortOwner, is_local, listens, owner_of
from ci_doctor.services.probes.ready import ReadinessProbe
from ci_doctor.system.processes.external_process import ExternalProcess
from ci_doctor.system.processes.process_table import Kin, descendants, look_up, read_table

# They take connections for a container that a process has asked a daemon to start.
_PROXIES = frozenset({"docker-proxy", "rootlessport", "pasta", "slirp4netns", "conmon"})


class ExternalTree:
    """External processes and their descendants, orphaned ones included."""

    def __init__(self, processes: Sequence[ExternalProcess], watch: DescendantWatch) -> None:
        self.processes = processes
        self._watch = watch

    def living(self) -> tuple[Kin, ...]:
        """The processes of the tree that have not ended."""
        processes = {}
        table = tuple(read_table())
        for pid in (process.pid for process in self.processes):
            own = look_up(pid)
            if own is not None:
                processes[own.identity] = own
            # The table shows what is below it now; only the watch knows what has been adopted since.
            below = descendants(table, pid, frozenset())
            for kin in (*below, *self._watch.below(pid)):
                processes[kin.identity] = kin
        return tuple(kin for kin in processes.values() if not kin.ended)

    def living_pids(self) -> list[int]:
        """The ids of the living processes."""
        return [kin.pid for kin in self.living()]


def foreign_listener(probe: ReadinessProbe, tree: ExternalTree) -> PortOwner | None:
    """The process that listens on the port of `probe` and does not belong to `tree`.

    None if there is none, or if its owner is unknown. A listener that serves a container and is
    younger than the tree's process does not count: the process may be the client that had the
    container started. `failure_cause.older_listener` excludes every younger listener.
    """
    if not probe.is_network or not is_local(probe.host):
        return None
    if listens(tree.living_pids(), probe.port):
        return None
    owner = owner_of(probe.port)
    if owner is None or owner.pid is None:
        return None
    if _is_younger(owner.pid, tree) and _serves_container(owner):
        return None
    return owner


def _is_younger(pid: int, tree: ExternalTree) -> bool:
    other = look_up(pid)
    own = [process.kin.started for process in tree.processes if process.kin is not None]
    if other is None or not own:
        return False
    # Start times are clock ticks (proc_pid_stat(5)): two quick starts may share one.
    return other.started >= min(own)


def _serves_container(owner: PortOwner) -> bool:
    """Whether it is a container's proxy, or lives in a pid namespace below ours."""
    if owner.name in _PROXIES:
        return True
    try:
        status = Path(f"/proc/{owner.pid}/status").read_text(errors="replace")
    except OSError:
        return False
    for line in status.splitlines():
        # One id for each pid namespace, from ours downwards (proc_pid_status(5)).
        if line.startswith("NSpid:"):
            return len(line.split()) > 2
    return False
