# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: which processes there are, and which descend from which."""

import os
import signal
from collections.abc import Iterable, Iterator

from msgspec import Struct

_ASKING = (signal.SIGINT, signal.SIGTERM)


class Kin(Struct, frozen=True, kw_only=True):
    """One row of the process table: `pid` and `started` (clock ticks since boot) name a process for good."""

    pid: int
    parent: int
    started: int
    state: str
    threads: int
    name: str

    @property
    def identity(self) -> tuple[int, int]:
        """What tells this process from a later one with the same pid."""
        return self.pid, self.started

    @property
    def ended(self) -> bool:
        """Whether it only waits to be reaped; a leader that left its other threads running does not."""
        return self.state in {"Z", "X"} and self.threads <= 1


def parse_stat(text: str) -> Kin:
    """A line of /proc/PID/stat (proc_pid_stat(5)); the name may itself hold spaces and parentheses."""
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    return Kin(
        pid=int(pid),
        name=name,
        state=fields[0],
        parent=int(fields[1]),
        threads=int(fields[17]),
        started=int(fields[19]),
    )


def look_up(pid: int) -> Kin | None:
    """The process that has `pid` now; None where there is none, or where /proc hides it (hidepid)."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    try:
        # One plain read, because a GPU host has thousands of processes and stopping looks at all of them.
        return parse_stat(os.read(descriptor, 4096).decode(errors="replace"))
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)


def ignored_signals(pid: int) -> frozenset[signal.Signals]:
    """The signals that a process ignores (SigIgn in /proc/PID/status, proc_pid_status(5)); none where it cannot be read."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123 - as in read_table
            mask = next(
                (int(line.split()[1], 16) for line in file if line.startswith(b"SigIgn:")), 0
            )
    except OSError:
        return frozenset()
    return frozenset(number for number in _ASKING if mask >> (number - 1) & 1)


def read_table() -> Iterator[Kin]:
    """Every process that /proc shows; one that comes or goes meanwhile may be in it or not."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - a thousand Path objects cost more than the look itself
        if name.isdigit() and (kin := look_up(int(name))):
            yield kin


def descendants(
    table: Iterable[Kin], root: int, bystanders: frozenset[tuple[int, int]]
) -> tuple[Kin, ...]:
    """Everything below `root` in `table`, parents first, without `bystanders` and what is below them."""
    children: dict[int, list[Kin]] = {}
    for kin in table:
        children.setdefault(kin.parent, []).append(kin)
    found: list[Kin] = []
    parents = [root]
    while parents:
        below = [kin for kin in children.get(parents.pop(), ()) if kin.identity not in bystanders]
        found += below
        parents += [kin.pid for kin in below]
    return tuple(found)
