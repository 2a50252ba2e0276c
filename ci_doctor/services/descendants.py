# SPDX-License-Identifier: Apache-2.0
"""Reads processes: finds everything below a service while it runs, and tells of each end as it happens."""

import asyncio
import os
import resource
from collections.abc import Callable, Iterable

from ci_doctor.services.descendant_end import (
    LONGEST_S,
    SHORTEST_S,
    DescendantPolicy,
    Ended,
    is_death,
    next_pause,
)
from ci_doctor.system import clock
from ci_doctor.system.processes.children import ChildrenLook, NewestPid
from ci_doctor.system.processes.exit_status import exit_status, is_ending
from ci_doctor.system.processes.process_table import Kin, look_up

_TICK_S = 0.2
_UNPROMPTED_S = 5.0  # a container may show a /proc/loadavg of its own making
_PIDFDS = 1000
_SPARE_PIDFDS = 8

__all__ = ["DescendantPolicy", "DescendantWatch", "Ended", "is_death"]


class _Member:
    def __init__(self, kin: Kin, root: int | None) -> None:
        self.kin = kin
        self.root = root
        self.pidfd: int | None = None


class DescendantWatch:
    """Tells `on_end` of the end of every process that was seen below one of `roots`, with the pid of that root.

    Made and used inside a running event loop. `orphans_below` says whose children processes become when their parent
    has ended: unknown ones there belong to the root in whose session they are, or to None. A process that was born and
    ended between two looks is never seen. Threads are no processes. One that outlives its root is still told of.
    """

    def __init__(
        self,
        roots: Callable[[], Iterable[int]],
        on_end: Callable[[int | None, Ended], None],
        *,
        orphans_below: Callable[[], int] | None = None,
    ) -> None:
        self._roots = roots
        self._on_end = on_end
        self._orphans_below = orphans_below
        self._loop = asyncio.get_running_loop()
        self._members: dict[int, _Member] = {}
        self._told: dict[int, Kin] = {}  # ended, but still listed until their parent waits for them
        self._root_started: dict[int, int] = {}
        self._root_of_session: dict[int, int | None] = {}
        self._free_pidfds = min(_PIDFDS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        self._newest = NewestPid()
        self._newest_then: int | None = None
        self._scanned_at = float("-inf")
        self._pause_s = SHORTEST_S
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Look now, and from now on; again where a root was added, so that the next looks follow soon."""
        self._pause_s = SHORTEST_S
        if self._timer is None:
            self._tick()

    def close(self) -> None:
        """Tell of nothing any more, and give all file descriptors back; may be called again."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._newest.close()
        for member in self._members.values():
            self._close_pidfd(member)
        self._members.clear()

    def below(self, root: int | None) -> tuple[Kin, ...]:
        """The processes below `root` that were seen at the last look and have not ended since."""
        return tuple(member.kin for member in self._members.values() if member.root == root)

    def scan_now(self) -> None:
        """Look at once, whatever the pace. Raises OSError where no file descriptor is left to look with."""
        began = clock.now()
        self._newest_then = (
            self._newest.read()
        )  # before the look: what is born meanwhile prompts the next one
        changed = self._look()
        self._scanned_at = clock.now()
        self._pause_s = next_pause(self._pause_s, self._scanned_at - began, changed=changed)

    def _tick(self) -> None:
        try:
            self._look_at_blind()
            if self._closed:  # by the one that was told
                return
            since = clock.now() - self._scanned_at
            newest = self._newest.read()
            prompted = newest is None or newest != self._newest_then
            if since >= _UNPROMPTED_S or (prompted and since >= self._pause_s):
                self.scan_now()
        except OSError:  # no file descriptor is left for a moment
            self._pause_s = LONGEST_S
        if not self._closed:
            self._timer = self._loop.call_later(min(self._pause_s, _TICK_S), self._tick)

    def _look(self) -> bool:
        """Whether a process was found that was not known."""
        look = ChildrenLook()
        roots = set(self._roots())
        for pid in roots:
            self._note_root(pid)
            if pid in self._members:
                self._promote(pid)
        waiting: list[tuple[int, int | None]] = [(root, root) for root in roots]
        waiting.extend((pid, member.root) for pid, member in self._members.items())
        adopter = self._orphans_below() if self._orphans_below else -1
        if adopter > 0:
            waiting.append((adopter, None))
        seen: set[int] = set()
        changed = False
        for pid, root in waiting:  # grows while it is walked
            for child in look.of(pid):
                seen.add(child)
                if child in roots or child in self._members or child == adopter:
                    continue
                member = self._take_in(child, root, orphan=pid == adopter)
                if member is not None:
                    waiting.append((child, member.root))
                    changed = True
        self._told = {pid: kin for pid, kin in self._told.items() if pid in seen}
        return changed

    def _note_root(self, root: int) -> None:
        if root not in self._root_started and (kin := look_up(root)) is not None:
            self._root_started[root] = kin.started
            if _session(root) == root:
                self._root_of_session[root] = root

    def _promote(self, pid: int) -> None:
        """One below a root has become a root: a daemon, by its pidfile. What it shared a root with is now below it."""
        daemon = self._members.pop(pid)
        self._close_pidfd(daemon)
        for member in self._members.values():
            if member.root == daemon.root and (
                member.root is not None or _session(member.kin.pid) == _session(pid)
            ):
                member.root = pid

    def _take_in(self, pid: int, root: int | None, *, orphan: bool) -> _Member | None:
        kin = look_up(pid)
        if kin is None or (
            (told := self._told.get(pid)) is not None and told.identity == kin.identity
        ):
            return None
        session = _session(pid)
        if orphan:
            root = self._root_of_session.get(session)
        elif session == pid:
            self._root_of_session[session] = root
        member = self._members[pid] = _Member(kin, root)
        self._open_pidfd(member)
        return member

    def _open_pidfd(self, member: _Member) -> None:
        if self._free_pidfds <= 0:
            return
        pid = member.kin.pid
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:  # gone already: the next look at the blind ones tells
            return
        except OSError:
            self._make_room()
            return
        try:
            now = look_up(pid)
        except OSError:
            os.close(pidfd)
            self._make_room()
            return
        if now is None or now.identity != member.kin.identity:
            os.close(pidfd)
            return
        self._loop.add_reader(pidfd, self._ended, pid)
        member.pidfd = pidfd
        self._free_pidfds -= 1

    def _make_room(self) -> None:
        """No file descriptor is left: from now on do with fewer, since looking needs some, and others do."""
        for member in [member for member in self._members.values() if member.pidfd is not None][
            -_SPARE_PIDFDS:
        ]:
            self._close_pidfd(member)
        self._free_pidfds = 0

    def _close_pidfd(self, member: _Member) -> None:
        if member.pidfd is not None:
            self._loop.remove_reader(member.pidfd)
            os.close(member.pidfd)
            member.pidfd = None
            self._free_pidfds += 1

    def _look_at_blind(self) -> None:
        """Whether one has ended that there is no pidfd for."""
        for member in [member for member in self._members.values() if member.pidfd is None]:
            if self._closed:
                return
            now = look_up(member.kin.pid)
            if now is None or now.identity != member.kin.identity or now.ended:
                self._ended(member.kin.pid)
            else:
                self._open_pidfd(member)

    def _ended(self, pid: int) -> None:
        at = clock.now()
        member = self._members.pop(pid)
        root = member.root
        root_ended = root is not None and is_ending(root, self._root_started.get(root, -1))
        returncode = exit_status(member.pidfd, pid, member.kin.started)
        self._close_pidfd(member)
        self._told[pid] = member.kin
        self._pause_s = SHORTEST_S  # a tree that loses one changes
        self._on_end(
            root, Ended(kin=member.kin, returncode=returncode, at=at, root_ended=root_ended)
        )


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1
