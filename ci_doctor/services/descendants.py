# SPDX-License-Identifier: Apache-2.0
"""Reads processes: finds everything below a service while it runs, and reports each end."""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator

from ci_doctor.services.descendant_end import LONGEST_S, SHORTEST_S, DescendantEnd, next_pause
from ci_doctor.services.members import Member, Members
from ci_doctor.system import clock
from ci_doctor.system.processes.process import exit_status, is_ending
from ci_doctor.system.processes.process_table import ChildrenLook, Kin, NewestPid, look_up

# Between two looks at the newest pid, which is one read of /proc/loadavg.
_TICK_S = 0.2
_SEEN = 10_000  # pids of one service; a pid is no more than a hint there
_UNPROMPTED_S = 5.0  # a container may show a /proc/loadavg of its own making


class DescendantWatch:
    """Calls `on_end` at the end of every process below one of `roots`, with the pid of that root.

    Made and used inside a running event loop. `orphans_below` returns the processes whose children
    others become when their parent has ended: new ones there belong to the root in whose session
    they are, or to None. A process that was born and ended between two scans is never seen. Threads
    are no processes. The end of one that outlives its root is still reported.
    """

    def __init__(
        self,
        roots: Callable[[], Iterable[int]],
        on_end: Callable[[int | None, DescendantEnd], None],
        *,
        orphans_below: Callable[[], Collection[int]] | None = None,
    ) -> None:
        self._roots = roots
        self._on_end = on_end
        self._orphans_below = orphans_below
        self._loop = asyncio.get_running_loop()
        self._members = Members(self._loop, self._ended)
        # Reported, but still in the process table until their parent waits for them.
        self._reported: dict[int, Kin] = {}
        self._root_started: dict[int, int] = {}
        self._seen: dict[int | None, set[int]] = {}
        self._root_of_session: dict[int, int | None] = {}
        self._newest = NewestPid()
        self._newest_at_scan: int | None = None
        self._scanned_at = float("-inf")
        self._pause_s = SHORTEST_S
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Scan now, and from now on; call it again for a new root, so that scans follow soon."""
        self._pause_s = SHORTEST_S
        if self._timer is None:
            self._tick()

    def close(self) -> None:
        """Report nothing any more, and give all file descriptors back; may be called again."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._newest.close()
        self._members.close()

    def below(self, root: int | None) -> tuple[Kin, ...]:
        """The processes below `root` at the last scan that have not ended since."""
        return tuple(member.kin for member in self._members if member.root == root)

    def of(self, root: int) -> frozenset[int]:
        """The pids of all that was ever below `root`; up to 10,000."""
        return frozenset(self._seen.get(root, ()))

    def scan_now(self) -> None:
        """Scan at once, whatever the pace. Raises OSError if no file descriptor is left for it."""
        began = clock.now()
        # Read before the scan: what is born meanwhile prompts the next one.
        self._newest_at_scan = self._newest.read()
        has_changed = self._scan()
        self._scanned_at = clock.now()
        self._pause_s = next_pause(self._pause_s, self._scanned_at - began, changed=has_changed)

    def _tick(self) -> None:
        try:
            self._check_unwatched()
            if self._closed:  # by `on_end`
                return
            if self._is_due():
                self.scan_now()
        except OSError:  # no file descriptor is left for a moment
            self._pause_s = LONGEST_S
        if not self._closed:
            self._timer = self._loop.call_later(min(self._pause_s, _TICK_S), self._tick)

    def _is_due(self) -> bool:
        since_s = clock.now() - self._scanned_at
        if since_s >= _UNPROMPTED_S:
            return True
        newest = self._newest.read()
        # Without a new pid on the whole machine the tree cannot have grown.
        has_news = newest is None or newest != self._newest_at_scan
        return has_news and since_s >= self._pause_s

    def _scan(self) -> bool:
        """Whether there is a process that was not there before."""
        # One look serves the whole scan: without CONFIG_PROC_CHILDREN it reads the whole process
        # table.
        look = ChildrenLook()
        roots = set(self._roots())
        for pid in roots:
            self._note_root(pid)
        adopters: Collection[int] = ()
        if self._orphans_below is not None:
            adopters = self._orphans_below()
        listed: set[int] = set()
        has_changed = False
        # `parents` grows while it is walked: a new member's own children are looked for too.
        parents = list(self._parents(roots, adopters))
        for parent, root in parents:
            children = set(look.of(parent))
            listed |= children
            for child in children - roots - set(adopters):
                if child in self._members:
                    continue
                member = self._take_in(child, root, is_orphan=parent in adopters)
                if member is not None:
                    parents.append((child, member.root))
                    has_changed = True
        self._forget_reaped(listed)
        return has_changed

    def _parents(
        self, roots: Iterable[int], adopters: Iterable[int]
    ) -> Iterator[tuple[int, int | None]]:
        """Each process whose children are looked at, and the root that they belong to."""
        for root in roots:
            yield root, root
        for member in self._members:
            yield member.kin.pid, member.root
        for adopter in adopters:
            yield adopter, None

    def _forget_reaped(self, listed: set[int]) -> None:
        reaped = [pid for pid in self._reported if pid not in listed]
        for pid in reaped:
            del self._reported[pid]

    def _note_root(self, root: int) -> None:
        if root not in self._root_started:
            kin = look_up(root)
            if kin is not None:
                self._root_started[root] = kin.started
                if session_of(root) == root:
                    self._root_of_session[root] = root
        if root in self._members:
            self._promote(root)

    def _promote(self, pid: int) -> None:
        """A process below a root has become a root itself: a daemon, by its pidfile.

        The others of its old root are now below it.
        """
        daemon = self._members.remove(pid)
        for member in self._members:
            if member.root != daemon.root:
                continue
            if member.root is not None or session_of(member.kin.pid) == session_of(pid):
                member.root = pid

    def _take_in(self, pid: int, root: int | None, *, is_orphan: bool) -> Member | None:
        kin = look_up(pid)
        if kin is None:
            return None
        reported = self._reported.get(pid)
        if reported is not None and reported.identity == kin.identity:
            return None
        session = session_of(pid)
        # Its parent is gone, but a process keeps its session.
        if is_orphan:
            root = self._root_of_session.get(session)
        elif session == pid:
            self._root_of_session[session] = root
        pids = self._seen.setdefault(root, set())
        if len(pids) < _SEEN:
            pids.add(pid)
        return self._members.add(kin, root)

    def _check_unwatched(self) -> None:
        """Report the ends of those without a pidfd."""
        for member in self._members.unwatched():
            if self._closed:  # by `on_end`
                return
            now = look_up(member.kin.pid)
            if now is None or now.identity != member.kin.identity or now.ended:
                self._ended(member.kin.pid)
            else:
                self._members.watch(member)

    def _ended(self, pid: int) -> None:
        at = clock.now()
        member = self._members[pid]
        root = member.root
        root_ended = False
        if root is not None:
            # With its start time: the pid of a root that is gone may be another process by now.
            started = self._root_started.get(root, -1)
            root_ended = is_ending(root, started)
        # Before its pidfd is closed: that alone still tells how a reaped process ended.
        returncode = exit_status(member.pidfd, pid, member.kin.started)
        self._members.remove(pid)
        # A zombie stays among its parent's children: the next scan must not take it in again.
        self._reported[pid] = member.kin
        self._pause_s = SHORTEST_S  # a tree that loses one changes
        end = DescendantEnd(kin=member.kin, returncode=returncode, at=at, root_ended=root_ended)
        self._on_end(root, end)


def session_of(pid: int) -> int:
    """The session of a process; -1 if it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return -1
