# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: which processes there are, which descend from which, and whether any was born.

Not by psutil, whose process_iter() takes seven times the CPU for the same six fields: 96 ms for 929 processes in
place of 13 (psutil 7.2, two cores). A stop looks at all processes until they are gone, and a GPU host has thousands.
psutil is the door for what is asked about one process, or seldom.

Standard library only, and little of it: the guardian uses it too, which is started in every launch, without
site-packages, and outlives their removal.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from functools import cache


class Kin:
    """One row of the process table (proc_pid_stat(5)).

    `pid` and `started` (clock ticks since boot) together never name another process: two rows with
    both are equal. `status` is the wait status of one that has ended, as far as this user may see it.
    """

    __slots__ = (
        "flags",
        "group",
        "name",
        "parent",
        "pid",
        "session",
        "started",
        "state",
        "status",
        "threads",
    )

    def __init__(  # noqa: PLR0913 - what a row has
        self,
        *,
        pid: int,
        parent: int,
        started: int,
        state: str,
        threads: int,
        name: str,
        group: int = 0,
        session: int = 0,
        flags: int = 0,
        status: int = 0,
    ) -> None:
        self.pid = pid
        self.parent = parent
        self.started = started
        self.state = state
        self.threads = threads
        self.name = name
        self.group = group
        self.session = session
        self.flags = flags
        self.status = status

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kin) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"Kin({self.name!r}, pid={self.pid}, started={self.started}, state={self.state!r})"

    @property
    def identity(self) -> tuple[int, int]:
        """What distinguishes this process from a later one with the same pid."""
        return self.pid, self.started

    @property
    def ended(self) -> bool:
        """Whether it only waits to be reaped. A leader whose other threads still run does not."""
        return self.state in {"Z", "X"} and self.threads <= 1

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in {"T", "t"}


def parse_stat(text: str) -> Kin:
    """Parse /proc/PID/stat (proc_pid_stat(5)); the name may itself hold spaces and parentheses."""
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    return Kin(
        pid=int(pid),
        name=name,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        flags=int(fields[6]),
        threads=int(fields[17]),
        started=int(fields[19]),
        status=int(fields[49]),
    )


def look_up(pid: int) -> Kin | None:
    """The process that has `pid` now; None if there is none, or if /proc hides it (hidepid)."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    try:
        # One plain read: a GPU host has thousands of processes, and a stop looks at all of them.
        return parse_stat(os.read(descriptor, 4096).decode(errors="replace"))
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)


def still_lives(kin: Kin) -> bool:
    """Whether this process has not ended; another one may have its pid by now."""
    now = look_up(kin.pid)
    if now is None or now.identity != kin.identity:
        return False
    return not now.ended


def read_table() -> Iterator[Kin]:
    """Every process in /proc; one that comes or goes meanwhile may be missing."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of Path objects
        if not name.isdigit():
            continue
        kin = look_up(int(name))
        if kin is not None:
            yield kin


def descendants(
    table: Iterable[Kin], root: int, bystanders: frozenset[tuple[int, int]]
) -> tuple[Kin, ...]:
    """Everything below `root` in `table`, parents first, without the families of `bystanders`."""
    children: dict[int, list[Kin]] = {}
    for kin in table:
        children.setdefault(kin.parent, []).append(kin)
    family: list[Kin] = []
    parents = [root]
    while parents:
        for kin in children.get(parents.pop(), ()):
            if kin.identity not in bystanders:
                family.append(kin)
                parents.append(kin.pid)
    return tuple(family)


_READ_BYTES = 65536


@cache
def kernel_lists_children() -> bool:
    """Whether /proc/PID/task/TID/children is there.

    It needs CONFIG_PROC_CHILDREN, which not every container runtime has.
    """
    pid = os.getpid()
    return os.path.exists(f"/proc/{pid}/task/{pid}/children")  # noqa: PTH110 - no Path is needed


class ChildrenLook:
    """One look at the children of all processes; without the kernel's lists, by a single table.

    A child that comes or goes meanwhile may be missing (proc_pid_task(5)). Raises OSError if no
    file descriptor is left to look with.
    """

    def __init__(self, *, listed: bool | None = None) -> None:
        self._listed = kernel_lists_children() if listed is None else listed
        self._table: dict[int, list[int]] | None = None

    def of(self, pid: int) -> list[int]:
        """The pids of the direct children of `pid`, zombies included."""
        if self._listed:
            return children_of(pid)
        if self._table is None:
            self._table = {}
            for kin in read_table():
                self._table.setdefault(kin.parent, []).append(kin.pid)
        return self._table.get(pid, [])


def children_of(pid: int) -> list[int]:
    """The same by the kernel's lists: one for each thread, since a thread has its own children."""
    children: list[int] = []
    # A process or a thread that ends meanwhile has no children any more: they have another parent.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - many times a second
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                children += _read_list(f"/proc/{pid}/task/{thread}/children")
    return children


def _read_list(path: str) -> list[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        text = b""
        while more := os.read(descriptor, _READ_BYTES):
            text += more
    finally:
        os.close(descriptor)
    return [int(word) for word in text.split()]


class NewestPid:
    """The pid that this pid namespace gave out last (proc_loadavg(5)).

    While it stays the same, nobody has forked.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def read(self) -> int | None:
        """The pid; None if the system does not show it."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open("/proc/loadavg", os.O_RDONLY)
            return int(os.pread(self._descriptor, 256, 0).split()[-1])
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        """Give the file descriptor back; may be called again, and so may `read`."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
