# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: ends all that is below the guardian, once ci-doctor is gone. Standard library only.

It looks at /proc in its own few lines, and not by process_table, because that stands on msgspec: the guardian would take
three times as long to start, and would need the packages of ci-doctor's environment while that may be taken down.
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


class ProcessRow:
    """A living process: `pid` and `started` (clock ticks) name it for good."""

    __slots__ = ("parent", "pid", "started", "state")

    def __init__(self, pid: int, parent: int, started: int, state: bytes) -> None:
        self.pid = pid
        self.parent = parent
        self.started = started
        self.state = state


def end_all(stop_programs: Iterable[Program], wakeup: int) -> None:
    """Ask everything below us to end, run `stop_programs` beside it, and after a second kill until nothing is left.

    `wakeup` becomes readable with each SIGCHLD. Seconds: 1 for those that were asked, 3 for `stop_programs`, 10 in all.
    """
    began = time.monotonic()
    stopping = set(_started(stop_programs))
    asked: set[tuple[int, int]] = set()
    quiet = 0
    while quiet < 2 and (age := time.monotonic() - began) < _LIMIT_S:
        _reap(stopping)
        spared = stopping if age < _STOP_COMMANDS_S else set()
        try:
            living = below(os.getpid(), spared)
        except (
            OSError,
            MemoryError,
        ):  # no file descriptor or memory left just now: what we end gives some back
            living, quiet = [], -1
        for row in living:
            if age >= _GRACE_S:
                _send(row, signal.SIGKILL)
            elif (row.pid, row.started) not in asked:
                asked.add((row.pid, row.started))
                _ask_to_end(row)
        # A fork that was under way during one look is seen by the next.
        quiet = 0 if living or spared else quiet + 1
        _wait(wakeup, 0.002 if quiet else 0.02 if age >= _GRACE_S else min(0.1, _GRACE_S - age))


def below(root: int, spared: Collection[int] = ()) -> list[ProcessRow]:
    """What lives below `root`, without `spared` and what is below them. A zombie that left threads running lives."""
    children: dict[int, list[ProcessRow]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is not loaded here
        if name.isdigit() and (row := _look_up(int(name))):
            children.setdefault(row.parent, []).append(row)
    found: list[ProcessRow] = []
    parents = [root]
    while parents:
        rows = [row for row in children.get(parents.pop(), ()) if row.pid not in spared]
        parents += [row.pid for row in rows]
        found += [row for row in rows if row.state not in b"ZX"]
    return found


def _look_up(pid: int) -> ProcessRow | None:
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    state = fields[0] if int(fields[17]) <= 1 else b"S"
    return ProcessRow(pid, int(fields[1]), int(fields[19]), state)


def _started(programs: Iterable[Program]) -> Iterable[int]:
    for program in programs:
        with contextlib.suppress(OSError):
            pid, report = start(program, (None, None, None))
            os.close(report)
            yield pid


def _ask_to_end(row: ProcessRow) -> None:
    ignored = _ignored(row.pid)
    heard = next(
        (number for number in (signal.SIGTERM, signal.SIGINT) if not ignored >> (number - 1) & 1),
        signal.SIGKILL,
    )
    _send(row, heard)
    if row.state == b"T":  # a stopped process hears nothing but SIGKILL until it goes on
        _send(row, signal.SIGCONT)


def _ignored(pid: int) -> int:
    """The mask SigIgn of proc_pid_status(5); 0 where it cannot be read."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123 - as in below
        return next((int(line.split()[1], 16) for line in file if line.startswith(b"SigIgn:")), 0)
    return 0


def _send(row: ProcessRow, number: int) -> None:
    """By a pidfd that is certainly of this process, not of a later one with its pid; gone or another user's is fine."""
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
