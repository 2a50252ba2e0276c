# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: ends all that is below the guardian, once ci-doctor is gone.

Standard library only. It reads /proc in its own few lines, and not by process_table, because that
imports msgspec: the guardian would take three times as long to start, and would need the packages
of ci-doctor's environment while that may be taken down.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Collection, Iterable

from ci_doctor.system.guardian.child import Program, start

_GRACE_S = 1.0
_STOP_COMMANDS_S = 3.0
_LIMIT_S = 10.0  # only the kernel holds a process back that long after SIGKILL
_POLITE = (signal.SIGTERM, signal.SIGINT)


class ProcessRow:
    """A living process; `pid` and `started` (clock ticks) together never name another one."""

    __slots__ = ("parent", "pid", "started", "state")

    def __init__(self, pid: int, parent: int, started: int, state: bytes) -> None:
        self.pid = pid
        self.parent = parent
        self.started = started
        self.state = state


def end_all(stop_programs: Iterable[Program], wakeup: int) -> None:
    """Ask everything below us to end, run `stop_programs` meanwhile, and then kill what is left.

    `wakeup` becomes readable with each SIGCHLD. Those asked have 1 second, `stop_programs` 3, and
    the whole 10.
    """
    began = time.monotonic()
    stopping = set(_started(stop_programs))
    asked: set[tuple[int, int]] = set()
    quiet = 0
    # One empty look is not enough: a fork under way during it is seen by the next.
    while quiet < 2:
        age = time.monotonic() - began
        if age >= _LIMIT_S:
            return
        _reap(stopping)
        spared = stopping if age < _STOP_COMMANDS_S else set[int]()
        try:
            living = below(os.getpid(), spared)
        except (OSError, MemoryError):
            # No file descriptor or memory left just now: what we end gives some back.
            living = []
            quiet = -1
        _end(living, asked, kill=age >= _GRACE_S)
        quiet = 0 if living or spared else quiet + 1
        _wait(wakeup, _pause_s(quiet, age))


def _end(living: Iterable[ProcessRow], asked: set[tuple[int, int]], *, kill: bool) -> None:
    """Kill each of `living`, or ask those to end that are not in `asked` yet."""
    for row in living:
        identity = (row.pid, row.started)
        if kill:
            _send(row, signal.SIGKILL)
        elif identity not in asked:
            asked.add(identity)
            _ask_to_end(row)


def _pause_s(quiet: int, age: float) -> float:
    """How long to wait for a SIGCHLD before the next look: short between the two last ones."""
    if quiet:
        return 0.002
    if age >= _GRACE_S:
        return 0.02
    return min(0.1, _GRACE_S - age)


def below(root: int, spared: Collection[int] = ()) -> list[ProcessRow]:
    """What lives below `root`, without `spared` and their descendants.

    A zombie that left threads running counts as living.
    """
    children: dict[int, list[ProcessRow]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is not loaded here
        row = _look_up(int(name)) if name.isdigit() else None
        if row is not None:
            children.setdefault(row.parent, []).append(row)
    living: list[ProcessRow] = []
    parents = [root]
    while parents:
        for row in children.get(parents.pop(), ()):
            if row.pid in spared:
                continue
            parents.append(row.pid)
            if row.state not in b"ZX":
                living.append(row)
    return living


def _look_up(pid: int) -> ProcessRow | None:
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # After the name, which may itself hold spaces and parentheses (proc_pid_stat(5)).
        fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    threads = int(fields[17])
    state = fields[0] if threads <= 1 else b"S"
    return ProcessRow(pid, parent=int(fields[1]), started=int(fields[19]), state=state)


def _started(programs: Iterable[Program]) -> Iterable[int]:
    for program in programs:
        with contextlib.suppress(OSError):
            pid, report = start(program, (None, None, None))
            os.close(report)
            yield pid


def _ask_to_end(row: ProcessRow) -> None:
    """Send the gentlest signal that the process does not ignore."""
    ignored = _ignored(row.pid)
    for number in _POLITE:
        if not ignored >> (number - 1) & 1:
            _send(row, number)
            break
    else:
        _send(row, signal.SIGKILL)
    # A stopped process acts on nothing but SIGKILL until it is continued (signal(7)).
    if row.state == b"T":
        _send(row, signal.SIGCONT)


def _ignored(pid: int) -> int:
    """The mask SigIgn of proc_pid_status(5); 0 if it cannot be read."""
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{pid}/status", "rb") as status,  # noqa: PTH123 - as in below
    ):
        for line in status:
            if line.startswith(b"SigIgn:"):
                return int(line.split()[1], 16)
    return 0


def _send(row: ProcessRow, number: int) -> None:
    """Signal this process and no later one with its pid; one that has ended is fine."""
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(row.pid)
        try:
            now = _look_up(row.pid)
            if now is not None and now.started == row.started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _reap(stopping: set[int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            stopping.discard(pid)


def _wait(wakeup: int, limit_s: float) -> None:
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    if poll.poll(limit_s * 1000):
        os.read(wakeup, 4096)
