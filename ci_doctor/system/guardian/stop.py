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
from ci_doctor.system.processes.stop_order import (
    HELPERS_S,
    OWN_TIME_S,
    SignalMasks,
    read_masks,
    stop_order,
)

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


def end_all(
    roots: Collection[int],
    minded: Collection[tuple[int, int]],
    stop_programs: Iterable[Program],
    wakeup: int,
) -> None:
    """Ask everything below us to end, run `stop_programs` meanwhile, and then kill what is left.

    `roots` are the pids that were started as themselves, and not by others. `minded` are processes
    that are not below us, as pid and start: they and what is below them end too. `wakeup` becomes
    readable with each SIGCHLD. Those asked have 1 second, helpers of others 2 after all others have
    ended (stop_order.py), `stop_programs` 3, and the whole 10.
    """
    began = time.monotonic()
    stopping = set(_started(stop_programs))
    known = set(minded)
    ending = _Ending({*roots, *(pid for pid, _ in minded)})
    quiet = 0
    # One empty look is not enough: a fork under way during it is seen by the next.
    while quiet < 2:
        age = time.monotonic() - began
        if age >= _LIMIT_S:
            return
        _reap(stopping)
        spared = stopping if age < _STOP_COMMANDS_S else set[int]()
        try:
            living = below(os.getpid(), spared, known)
            # An orphan of a minded process is below nobody any more.
            known.update((row.pid, row.started) for row in living)
        except (OSError, MemoryError):
            # No file descriptor or memory left just now: what we end gives some back.
            living = []
            quiet = -1
        ending.take_turn(living, age)
        quiet = 0 if living or spared else quiet + 1
        _wait(wakeup, _pause_s(quiet, age))


class _Ending:
    """Whom to ask or kill at each look."""

    def __init__(self, roots: Collection[int]) -> None:
        self._roots = roots
        self._asked: set[tuple[int, int]] = set()
        self._alone_since: float | None = None

    def take_turn(self, living: Iterable[ProcessRow], age: float) -> None:
        """Do what is due `age` seconds after the beginning."""
        first, helpers, deaf = stop_order(living, self._is_root, self._masks)
        if first:
            self._alone_since = None
            self._end(first, kill=age >= _GRACE_S)
            return
        if self._alone_since is None:
            self._alone_since = age
        alone_s = age - self._alone_since
        if alone_s >= OWN_TIME_S:
            self._end(helpers, kill=False)
        is_over = alone_s >= HELPERS_S
        for row in deaf:
            # Nothing has ended that a root could wait for the end of.
            if is_over or (row.pid in self._roots and not self._asked):
                _send(row, signal.SIGKILL)
            _wake(row)

    def _end(self, rows: Iterable[ProcessRow], *, kill: bool) -> None:
        """Kill each of `rows`, or ask those to end that were not asked yet."""
        for row in rows:
            identity = (row.pid, row.started)
            if kill:
                _send(row, signal.SIGKILL)
            elif identity not in self._asked:
                self._asked.add(identity)
                _ask_to_end(row)

    def _is_root(self, row: ProcessRow) -> bool:
        return row.pid in self._roots

    def _masks(self, row: ProcessRow) -> SignalMasks:
        # Whoever was asked is on its way, even if it ignores further requests by now.
        if (row.pid, row.started) in self._asked:
            return SignalMasks()
        return read_masks(row.pid)


def _pause_s(quiet: int, age: float) -> float:
    """How long to wait for a SIGCHLD before the next look: short between the two last ones."""
    if quiet:
        return 0.002
    if age >= _GRACE_S:
        return 0.02
    return min(0.1, _GRACE_S - age)


def still_lives(pid: int, started: int) -> bool:
    """Whether this very process has not ended."""
    row = _look_up(pid)
    return row is not None and row.started == started and row.state not in b"ZX"


def below(
    root: int, spared: Collection[int] = (), minded: Collection[tuple[int, int]] = ()
) -> list[ProcessRow]:
    """What lives below `root`, without `spared` and their descendants, and with the `minded`.

    A zombie that left threads running counts as living.
    """
    children: dict[int, list[ProcessRow]] = {}
    strangers: list[ProcessRow] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is not loaded here
        row = _look_up(int(name)) if name.isdigit() else None
        if row is None:
            continue
        children.setdefault(row.parent, []).append(row)
        if (row.pid, row.started) in minded:
            strangers.append(row)
    living = [row for row in strangers if row.state not in b"ZX"]
    parents = [root, *(row.pid for row in strangers)]
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
    masks = read_masks(row.pid)
    for number in _POLITE:
        if not masks.ignores(number):
            _send(row, number)
            break
    _wake(row)


def _wake(row: ProcessRow) -> None:
    """Continue a stopped process: it acts on nothing but SIGKILL until then (signal(7))."""
    if row.state == b"T":
        _send(row, signal.SIGCONT)


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
