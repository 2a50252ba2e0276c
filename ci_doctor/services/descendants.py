# SPDX-License-Identifier: Apache-2.0
"""Reads processes and pid files: the end of every process below a service, and which limit of a cgroup was reached."""

import asyncio
import contextlib
import os
import re
import resource
import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal, assert_never

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.render.formatting import duration
from ci_doctor.services.busy_timeout import BusyTimeout
from ci_doctor.services.instance import Allowance, Death, Instance
from ci_doctor.system import clock
from ci_doctor.system.files.growing import FileWatch
from ci_doctor.system.processes.kernel_words import (
    MemoryEvents,
    locate,
    oom_cause,
    refusals,
    task_limit,
)
from ci_doctor.system.processes.process import exit_status, is_ending
from ci_doctor.system.processes.process_table import ChildrenLook, Kin, NewestPid, look_up
from ci_doctor.system.processes.tree import ExternalProcess, OwnTree


class LimitWatch:
    """What the kernel counts of a cgroup's limits, compared at each death with the death before.

    `scope` is the process whose cgroup is read. It must live now; later its cgroup alone counts.
    """

    def __init__(self, scope: int | Literal["self"] = "self") -> None:
        self._place = locate(scope)
        self._memory = MemoryEvents.at(self._place)
        self._tasks_place = locate(scope, "pids")
        self._refusals = refusals(self._tasks_place)

    def death(self, returncode: int | None, peak_rss: int | None = None) -> Death:
        """Return how a process ended, and whose memory ran out if the OOM killer ended it."""
        cause = None
        # The counters are those of the whole cgroup: only what they grew by is about this end.
        then, self._refusals = self._refusals, refusals(self._tasks_place)
        # The OOM killer sends only SIGKILL.
        if returncode == -signal.SIGKILL:
            before, self._memory = self._memory, MemoryEvents.at(self._place)
            cause = oom_cause(before, self._memory)
        return Death(
            returncode=returncode,
            peak_rss=peak_rss,
            oom=None if cause is None else cause.describe(),
            host_oom=cause is not None and cause.host,
            task_limit=task_limit(then, self._refusals),
        )


def cgroup_of(pid: int | Literal["self"]) -> str | None:
    """What /proc says of the cgroups of a process; None if it is gone."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None


# proc_pid_limits(5); the soft limit, if it is not `unlimited`.
_FILE_SIZE = re.compile(r"^Max file size +(\d+)", re.MULTILINE)


def allowance_of(pid: int) -> Allowance | None:
    """What the system allows a process; None if it is gone."""
    place = Path(f"/proc/{pid}")
    try:
        # prlimit(2) tells of another user's process only with a capability.
        most = _FILE_SIZE.search((place / "limits").read_text())
        user = place.stat().st_uid
    except OSError:
        return None
    return Allowance(user=user, file_bytes=None if most is None else int(most[1]))


class LimitWatches:
    """The limits of our own cgroup, and of those into which services are put after their start."""

    def __init__(self) -> None:
        self._ours = cgroup_of("self")
        self._shared = LimitWatch()
        self._own: dict[int, LimitWatch] = {}

    def look(self, pid: int) -> None:
        """See to it that the limits of a service that lives are known, of which `pid` is the process."""
        if pid in self._own or cgroup_of(pid) in {None, self._ours}:
            return
        watch = LimitWatch(pid)
        process = look_up(pid)
        # One that ends has left its cgroup (v1).
        if process is not None and not is_ending(pid, process.started):
            self._own[pid] = watch

    def of(self, pid: int) -> LimitWatch:
        """The limits that hold for the service of which `pid` is the process."""
        return self._own.get(pid, self._shared)


# A process without a pidfd is checked by each scan instead (DescendantWatch).
_PIDFDS = 1000


class Member:
    """A process below `root` (None if unknown). Without a `pidfd`, each scan must check it."""

    def __init__(self, kin: Kin, root: int | None) -> None:
        self.kin = kin
        self.root = root
        self.pidfd: int | None = None


SHORTEST_S = 0.05
LONGEST_S = 1.0
_LONGEST_QUIET_S = 2.0

DescendantPolicy = Literal["signal", "exit", "ignore"]


class DescendantEnd(Struct, frozen=True, kw_only=True):
    """A process below a service that has ended, noticed `at` that monotonic second.

    `returncode` is as subprocess has it, None if the system does not tell. With `root_ended` the
    service's own process had ended or was about to: the end of this one may follow from that.
    """

    kin: Kin
    returncode: int | None
    at: float
    root_ended: bool


def is_death(policy: DescendantPolicy, returncode: int | None, *, root_ended: bool) -> bool:
    """Whether the end of a process below a service is a death of the service.

    "signal": only if a signal ended it, since compilers come and go; "exit": every exit but 0 too.
    A process below a service that has itself ended is no cause, nor is an unknown end. Nor is
    SIGPIPE, by which every `yes | head` of a start script ends.
    """
    if root_ended or returncode is None or returncode == -signal.SIGPIPE:
        return False
    match policy:
        case "signal":
            return returncode < 0
        case "exit":
            return returncode != 0
        case "ignore":
            return False
        case _:
            assert_never(policy)


def next_pause(previous_s: float, cost_s: float, *, changed: bool) -> float:
    """Seconds until the next scan, after one that took `cost_s` seconds.

    It is soon while the tree changes, then ever later. Scans take at most a 40th of the time while
    the tree changes, and a 1000th once it has been quiet for a while; an expensive one is never put
    off for longer than two seconds.
    """
    if changed:
        return min(max(SHORTEST_S, 40 * cost_s), LONGEST_S)
    return max(SHORTEST_S, min(2 * previous_s, 1000 * cost_s, _LONGEST_QUIET_S))


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
        # At most 1000 have a pidfd, and at most a quarter of what the limit of open files allows:
        # services, logs and probes need descriptors of the same limit.
        self._free_pidfds = min(_PIDFDS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        self._members: dict[int, Member] = {}
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
        for pid in tuple(self._members):
            self._remove(pid)

    def below(self, root: int | None) -> tuple[Kin, ...]:
        """The processes below `root` at the last scan that have not ended since."""
        members = self._members.values()
        return tuple(member.kin for member in members if member.root == root)

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
        self._reported = {pid: kin for pid, kin in self._reported.items() if pid in listed}
        return has_changed

    def _parents(
        self, roots: Iterable[int], adopters: Iterable[int]
    ) -> Iterator[tuple[int, int | None]]:
        """Each process whose children are looked at, and the root that they belong to."""
        for root in roots:
            yield root, root
        for member in self._members.values():
            yield member.kin.pid, member.root
        for adopter in adopters:
            yield adopter, None

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
        daemon = self._remove(pid)
        for member in self._members.values():
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
        member = self._members[pid] = Member(kin, root)
        self._watch(member)
        return member

    def _check_unwatched(self) -> None:
        """Report the ends of those without a pidfd."""
        for member in tuple(self._members.values()):
            if member.pidfd is not None:
                continue
            if self._closed:  # by `on_end`
                return
            now = look_up(member.kin.pid)
            if now is None or now.identity != member.kin.identity or now.ended:
                self._ended(member.kin.pid)
            else:
                self._watch(member)

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
        # A server names its processes after their start; a zombie keeps the name.
        now = look_up(pid)
        kin = member.kin if now is None or now.identity != member.kin.identity else now
        self._remove(pid)
        # A zombie stays among its parent's children: the next scan must not take it in again.
        self._reported[pid] = member.kin
        self._pause_s = SHORTEST_S  # a tree that loses one changes
        end = DescendantEnd(kin=kin, returncode=returncode, at=at, root_ended=root_ended)
        self._on_end(root, end)

    def _watch(self, member: Member) -> None:
        """Open a pidfd for it, if one is left and it still lives."""
        if self._free_pidfds <= 0:
            return
        pid = member.kin.pid
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # gone already, and so reported as unwatched; or no descriptor is left
            return
        now = None
        # The pid may have been reused between the scan and pidfd_open.
        with contextlib.suppress(OSError):
            now = look_up(pid)
        if now is None or now.identity != member.kin.identity:
            os.close(pidfd)
            return
        self._loop.add_reader(pidfd, self._ended, pid)
        member.pidfd = pidfd
        self._free_pidfds -= 1

    def _remove(self, pid: int) -> Member:
        """Remove and return a process, and close its pidfd."""
        member = self._members.pop(pid)
        if member.pidfd is not None:
            self._loop.remove_reader(member.pidfd)
            os.close(member.pidfd)
            member.pidfd = None
            self._free_pidfds += 1
        return member


def session_of(pid: int) -> int:
    """The session of a process; -1 if it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return -1


# --- a file that names a process: one to wait for, or one that a service left ---


# A pidfile holds one line; by mistake any file may be named, such as a log of gigabytes.
_MOST_BYTES = 4096
_LONGEST_SHOWN = 40
# The kernel reports a change at once, but not that of another machine on a network file system.
_LONGEST_REST_S = 0.5
# Between the clock of a file system and ours.
_CLOCKS_S = 2.0
LARGEST_PID = 2**22  # proc_sys_kernel(5), pid_max


def read_pidfile(path: Path) -> int | str:
    """The first word of `path`, or why that is no process to wait for, as a clause."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return f"{path} does not exist"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    word = next(iter(text.split()), "")
    if not word:
        return f"{path} is empty"
    # isdigit() alone also takes digits of other scripts, and int() a sign and underscores.
    is_number = word.isascii() and word.isdigit()
    if not is_number or not 1 < int(word) <= LARGEST_PID:
        return f"{path} holds {word[:_LONGEST_SHOWN]!r}, which is no process id"
    return int(word)


def check_age(path: Path, process: ExternalProcess) -> None:
    """Raises UsageError if `path` is older than `process`: another one had the pid then."""
    try:
        written = path.stat().st_mtime
    except OSError:
        return
    started = clock.epoch() - (clock.now() - process.started_at)
    if written < started - _CLOCKS_S:
        raise UsageError(
            f"{path} is stale: {process.name} started {duration(started - written)} after it was "
            "written, so it names an earlier process",
            hint="remove the file before the server starts, or name the process with --pid",
        )


async def await_pidfile(path: Path, limit_s: float) -> int | str:
    """The process id once the file holds one; why it does not, if `limit_s` is over first.

    The file is read at least once.
    """
    time_limit = BusyTimeout(limit_s)
    changed = asyncio.Event()
    watch = FileWatch(path, changed.set)
    try:
        while True:
            changed.clear()
            content = read_pidfile(path)
            left_s = time_limit.left_s()
            if isinstance(content, int) or left_s <= 0:
                return content
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), min(left_s, _LONGEST_REST_S))
    finally:
        watch.close()


# A daemon writes its pidfile within milliseconds of its start.
_PAUSE_S = 0.02


async def follow(instance: Instance, tree: OwnTree) -> ExternalProcess:
    """Wait until the pidfile of `instance` names a process of ours, and open its pidfd.

    Ends by cancellation only.
    """
    assert instance.filled.pidfile is not None  # noqa: S101 - the caller has checked it
    while True:
        pid = read_pidfile(instance.filled.pidfile)
        # Adopted by the guardian, a daemon stays in the tree although its parent has ended.
        for kin in tree.living():
            # Only ours: the pidfile of an earlier job may name any process.
            process = ExternalProcess.open(kin.pid) if kin.pid == pid else None
            if process is not None and process.kin == kin:
                return process
            if process is not None:
                process.close()
        await asyncio.sleep(_PAUSE_S)
