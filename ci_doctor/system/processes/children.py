# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: the children of a process, and whether any process was born since the last look."""

import contextlib
import os
from functools import cache

from ci_doctor.system.processes.process_table import read_table

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
