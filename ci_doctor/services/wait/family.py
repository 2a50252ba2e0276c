# SPDX-License-Identifier: Apache-2.0
"""Reads processes: what belongs to an external process, and who answers in its place."""

from pathlib import Path

from ci_doctor.services.descendants import DescendantWatch
from ci_doctor.services.ports import PortOwner, is_local, listens, owner_of
from ci_doctor.services.probes.ready import ReadinessProbe
from ci_doctor.system.processes.external_process import ExternalProcess
from ci_doctor.system.processes.process_table import Kin, descendants, look_up, read_table

# They take connections for a container that a process has asked a daemon to start.
_PROXIES = frozenset({"docker-proxy", "rootlessport", "pasta", "slirp4netns", "conmon"})


class Family:
    """An external process, what is below it now, and what was below it before its parent ended."""

    def __init__(self, process: ExternalProcess, watch: DescendantWatch) -> None:
        self.process = process
        self._watch = watch

    def living(self) -> tuple[Kin, ...]:
        """Those that live."""
        pid = self.process.pid
        processes = {}
        own = look_up(pid)
        if own is not None:
            processes[own.identity] = own
        # The table shows what is below it now; only the watch knows what has been adopted since.
        below = descendants(read_table(), pid, frozenset())
        for kin in (*below, *self._watch.below(pid)):
            processes[kin.identity] = kin
        return tuple(kin for kin in processes.values() if not kin.ended)

    def living_pids(self) -> list[int]:
        """Their ids."""
        return [kin.pid for kin in self.living()]


def impostor(probe: ReadinessProbe, family: Family) -> PortOwner | None:
    """Who answers on `probe` without belonging to `family`; None if nobody does, or is known to.

    What serves from within a container is not taken for one if it is younger: a client may have
    asked a daemon for it.
    """
    if not probe.is_network or not is_local(probe.host):
        return None
    if listens(family.living_pids(), probe.port):
        return None
    owner = owner_of(probe.port)
    if owner is None or owner.pid is None:
        return None
    if _is_younger(owner.pid, family) and _serves_container(owner):
        return None
    return owner


def _is_younger(pid: int, family: Family) -> bool:
    other = look_up(pid)
    own = family.process.kin
    if other is None or own is None:
        return False
    # Start times are clock ticks (proc_pid_stat(5)): two quick starts may share one.
    return other.started >= own.started


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
