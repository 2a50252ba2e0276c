# SPDX-License-Identifier: Apache-2.0
"""Reads processes: what belongs to a process that somebody else has started, and who answers in its place."""

from pathlib import Path

from ci_doctor.services.descendants import DescendantWatch
from ci_doctor.services.ports import PortOwner, is_local, listens, owner_of
from ci_doctor.services.probes.ready import Probe
from ci_doctor.system.processes.external_process import ExternalProcess
from ci_doctor.system.processes.process_table import Kin, descendants, look_up, read_table

# They take connections for a container that a process has asked a daemon to start.
_PROXIES = frozenset({"docker-proxy", "rootlessport", "pasta", "slirp4netns", "conmon"})


class Family:
    """A stranger, what is below it now, and what was seen below it before its parent ended."""

    def __init__(self, stranger: ExternalProcess, watch: DescendantWatch) -> None:
        self.stranger = stranger
        self._watch = watch

    def living(self) -> tuple[Kin, ...]:
        """Those that live."""
        pid = self.stranger.pid
        below = descendants(read_table(), pid, frozenset())
        own = [kin] if (kin := look_up(pid)) is not None else []
        found = {kin.identity: kin for kin in (*own, *below, *self._watch.below(pid))}
        return tuple(kin for kin in found.values() if not kin.ended)


def impostor(probe: Probe, family: Family) -> PortOwner | None:
    """Who answers on `probe` without belonging to `family`; None where nobody does, or nobody can tell.

    What serves from within a container is not taken for one, if it is younger: a client may have asked a daemon for it.
    """
    if not probe.is_network or not is_local(probe.host):
        return None
    if listens([kin.pid for kin in family.living()], probe.port):
        return None
    owner = owner_of(probe.port)
    if owner is None or owner.pid is None:
        return None
    other, ours = look_up(owner.pid), family.stranger.kin
    younger = other is not None and ours is not None and other.started >= ours.started
    return None if younger and _serves_container(owner) else owner


def _serves_container(owner: PortOwner) -> bool:
    """Whether it is a container's proxy, or lives in a pid namespace below ours (NSpid in proc_pid_status(5))."""
    if owner.name in _PROXIES:
        return True
    try:
        status = Path(f"/proc/{owner.pid}/status").read_text(errors="replace")
    except OSError:
        return False
    ids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(ids) > 1
