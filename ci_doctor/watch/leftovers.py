# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: what a script has left behind is named, and ended if that is asked for."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from msgspec import structs

from ci_doctor.model.service import LeftBehind, LeftKind, LeftThing
from ci_doctor.render.formatting import duration
from ci_doctor.services.leak_ledger import LeakLedger, LeakPolicy, removal
from ci_doctor.services.leak_places import SHARED_MEMORY
from ci_doctor.system import clock
from ci_doctor.system.processes.process_table import look_up
from ci_doctor.system.processes.tree import OwnTree
from ci_doctor.watch.judging import Listener, Process
from ci_doctor.watch.timeline import command_line
from ci_doctor.watch.tree import ScriptTree

SCRIPT: Final = "the script"
# What a script writes to temporary files is its own matter.
_KINDS: Final = frozenset(LeftKind) - {
    LeftKind.TEMPORARY_FILE,
    LeftKind.TEMPORARY_DIRECTORY,
    LeftKind.SOCKET,
}
_AT_ONCE: Final = 8
# Other jobs make shared memory, too: that may take this share of a core.
_SHARE: Final = 0.003
_STOP_S: Final = 8.0
_KILL_S: Final = 4.0


class CommandSpawner:
    """The command, for which the relay waits, and the relay's own child. A Spawner of a tree."""

    def __init__(self) -> None:
        self._command = -1
        self.identity = (-1, -1)

    def know(self, command: int, spared: Iterable[int]) -> None:
        """The command runs, and of `spared` the last one was started after it."""
        self._command = command
        others = filter(None, map(look_up, spared))
        youngest = max(others, key=lambda kin: kin.started, default=None)
        if youngest is not None:
            self.identity = youngest.identity

    def started(self, pid: int) -> bool:
        """Whether `pid` is the command."""
        return pid == self._command

    def claims(self, pid: int) -> bool:
        """Whether somebody else waits for that child."""
        return pid == self._command


class Leftovers:
    """Made before the script is started. `allowed` are patterns of what it may leave (fnmatch)."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = tuple(allowed)
        self._ledger = LeakLedger({SCRIPT: LeakPolicy(temporary=SHARED_MEMORY)})
        self._unseen: deque[Process] = deque()
        self._before = _shared()
        self._new: set[str] = set()
        self._due = 0.0

    def note(self, processes: Iterable[Process]) -> None:
        """These are of the script, and have become what they are."""
        processes = tuple(processes)
        self._ledger.belong(SCRIPT, (each.pid for each in processes))
        if self._new:
            self._unseen.extend(processes)

    def look(self, tree: ScriptTree) -> None:
        """If there is new shared memory, look at what a few of the processes hold."""
        if clock.now() < self._due:
            return
        new = _shared() - self._before
        if new - self._new:
            self._unseen = deque(tree.living.values())
        self._new = new
        began = time.thread_time()
        batch = [self._unseen.popleft() for _ in range(min(_AT_ONCE, len(self._unseen)))]
        kin = [each.kin for each in batch if each.ended is None]
        if kin:
            self._ledger.witness(SCRIPT, lambda: kin)
        self._due = clock.now() + (time.thread_time() - began) / _SHARE

    def processes(
        self, tree: ScriptTree, listeners: Iterable[Listener], now: float
    ) -> list[LeftThing]:
        """The processes that live, the topmost of each family, without those that are allowed."""
        self._ledger.witness(SCRIPT, lambda: [each.kin for each in tree.living.values()])
        ports: dict[int, set[int]] = {}
        for listener in listeners:
            if listener.owner is not None:
                ports.setdefault(listener.owner.pid, set()).add(listener.port)
        return [
            _process(each, ports.get(each.pid, set()), tree.root.log, now)
            for each in tree.living.values()
            if not self._is_allowed(each, ports.get(each.pid, set())) and not _is_below_left(each)
        ]

    def left(self, processes: Sequence[LeftThing], listeners: Iterable[Listener]) -> LeftBehind:
        """These processes, and what else is left now; the answer of the first call stays."""
        left = self._ledger.settled()
        held = {str(each.port) for each in listeners}
        things = [
            thing
            for thing in left.things
            if thing.kind in _KINDS
            and not (thing.kind is LeftKind.PORT and thing.name in held)
            and not self._matches(thing.name)
        ]
        return structs.replace(left, things=(*processes, *things), unknown={}, unseen=())

    def _is_allowed(self, process: Process, ports: Iterable[int]) -> bool:
        names = (process.kin.name, process.program, " ".join(process.words), *map(str, ports))
        return any(map(self._matches, names)) or any(
            self._is_allowed(each, ()) for each in process.above() if each.ended is None
        )

    def _matches(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._allowed)


def _shared() -> set[str]:
    try:
        return set(os.listdir(SHARED_MEMORY))  # noqa: PTH208 - only names are needed
    except OSError:
        return set()


def _is_below_left(process: Process) -> bool:
    """Whether a process above it is left, too: the topmost stands for its family."""
    return any(each.ended is None for each in process.above())


def _process(process: Process, ports: Iterable[int], log: str | None, now: float) -> LeftThing:
    why = f"{command_line(process)}, started {duration(now - process.born)} ago"
    numbers = sorted(ports)
    if numbers:
        why += f", listens on port {' and '.join(map(str, numbers))}"
    if process.log not in {None, log}:
        why += f", writes to {process.log}"
    return LeftThing(
        kind=LeftKind.PROCESS,
        name=str(process.pid),
        services=(SCRIPT,),
        why=why,
        remedy=removal(LeftKind.PROCESS, str(process.pid)),
    )


def end_all(tree: OwnTree) -> None:
    """Ask all of the tree to end, and kill what does not."""
    asyncio.run(tree.terminate(_STOP_S))
    tree.kill(_KILL_S)
