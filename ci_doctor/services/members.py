# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: the processes below services, with a pidfd each up to a maximum."""

import asyncio
import os
import resource
from collections.abc import Callable, Iterator

from ci_doctor.system.processes.process_table import Kin, look_up

# A process without a pidfd is checked by each scan instead (descendants.py).
_PIDFDS = 1000
# Closed at once when descriptors run out: enough for a scan of /proc, a log and a probe.
_SPARE_PIDFDS = 8


class Member:
    """A process below `root` (None if unknown). Without a `pidfd`, each scan must check it."""

    def __init__(self, kin: Kin, root: int | None) -> None:
        self.kin = kin
        self.root = root
        self.pidfd: int | None = None


class Members:
    """Calls `on_end` with the pid when a process ends that has a pidfd.

    At most 1000 have one, and at most a quarter of what the limit of open files allows.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[int], None]) -> None:
        self._loop = loop
        self._on_end = on_end
        self._members: dict[int, Member] = {}
        # Services, logs and probes need descriptors of the same limit.
        self._free_pidfds = min(_PIDFDS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, pid: int) -> bool:
        return pid in self._members

    def __getitem__(self, pid: int) -> Member:
        return self._members[pid]

    def add(self, kin: Kin, root: int | None) -> Member:
        """Add a process, and watch it if a pidfd is left."""
        member = self._members[kin.pid] = Member(kin, root)
        self.watch(member)
        return member

    def remove(self, pid: int) -> Member:
        """Remove and return a process, and close its pidfd."""
        member = self._members.pop(pid)
        self._close(member)
        return member

    def unwatched(self) -> list[Member]:
        """Those without a pidfd."""
        return [member for member in self if member.pidfd is None]

    def close(self) -> None:
        """Let all go; may be called again."""
        for member in self:
            self._close(member)
        self._members.clear()

    def watch(self, member: Member) -> None:
        """Open a pidfd for it, if one is left and it still lives."""
        if self._free_pidfds <= 0:
            return
        pid = member.kin.pid
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:  # gone already, and so reported as unwatched
            return
        except OSError:
            self._make_room()
            return
        try:
            # The pid may have been reused between the scan and pidfd_open.
            now = look_up(pid)
        except OSError:
            os.close(pidfd)
            self._make_room()
            return
        if now is None or now.identity != member.kin.identity:
            os.close(pidfd)
            return
        self._loop.add_reader(pidfd, self._on_end, pid)
        member.pidfd = pidfd
        self._free_pidfds -= 1

    def _make_room(self) -> None:
        """No file descriptor is left: do with fewer, since scans and others need some."""
        watched = [member for member in self if member.pidfd is not None]
        # The newest: the oldest are the service's own processes, whose end matters most.
        for member in watched[-_SPARE_PIDFDS:]:
            self._close(member)
        self._free_pidfds = 0

    def _close(self, member: Member) -> None:
        if member.pidfd is not None:
            self._loop.remove_reader(member.pidfd)
            os.close(member.pidfd)
            member.pidfd = None
            self._free_pidfds += 1
