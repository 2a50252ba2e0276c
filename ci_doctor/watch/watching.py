# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: looks at a running script from a thread beside it, and says what it waits for in vain."""

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ci_doctor.system import clock
from ci_doctor.system.processes.kernel_words import MemoryEvents, oom_cause
from ci_doctor.system.processes.process_table import children_of
from ci_doctor.system.processes.refusals import Refusals
from ci_doctor.system.processes.tree import become_subreaper
from ci_doctor.watch.judging import (
    Listener,
    Process,
    Scene,
    Waiting,
    foreground,
    may_have_served,
    waiting_for,
)
from ci_doctor.watch.listening import Listening
from ci_doctor.watch.script_place import place_of
from ci_doctor.watch.tree import ScriptTree

if TYPE_CHECKING:
    from ci_doctor.model.service import ServiceFailure

SHORTEST_S: Final = 0.03
LONGEST_S: Final = 0.5
# Looks may take this share of one core.
_SHARE: Final = 0.012
_RECENT_S: Final = 30.0
_REFUSALS: Final = 256
_KILLED: Final = -9


def next_pause(cost_s: float) -> float:
    """Seconds until the next look, if what was done since the last one took `cost_s` of CPU. Pure."""
    return min(max(SHORTEST_S, cost_s / _SHARE), LONGEST_S)


class SaidDeath(Struct, frozen=True, kw_only=True):
    """A server that died while the script waited: how, what waits, and when that was said.

    place: the line of the script that runs; None if nobody can tell.
    """

    process: Process
    failure: "ServiceFailure"
    waiting: Waiting
    at: float
    place: str | None = None


class ScriptWatch:
    """Watches the processes below the command of a `relay`, until it ends.

    `log` keeps what the command writes. `on_death` is called in the thread of the watch, once for
    each death that is worth a word.
    """

    def __init__(self, log: Path, on_death: Callable[["ScriptWatch", SaidDeath], None]) -> None:
        self.deaths: list[SaidDeath] = []
        self.listeners: list[Listener] = []
        self.gone: dict[int, float] = {}
        self.refused: dict[int, deque[float]] = {}
        self.problem: str | None = None
        self.began = clock.now()
        self.ended: float | None = None
        self.cpu_s = 0.0
        self.tree: ScriptTree | None = None
        become_subreaper()
        self._log = log
        self._on_death = on_death
        self._pending: list[Process] = []
        self._orphan_ended = False
        self._memory = MemoryEvents.read()
        self._poll = select.epoll()
        self._stop_reader, self._stop = os.pipe()
        self._listening = Listening()
        self._refusals = Refusals()
        self._thread: threading.Thread | None = None

    # --- what the relay calls, in the main thread ---

    def begin(self, command: int) -> None:
        """The command runs as the child `command`; our other children are none of it."""
        self.began = clock.now()
        spared = frozenset(children_of(os.getpid())) - {command}
        self.tree = ScriptTree(
            command, spared, self._watch, self._unwatch, log=str(self._log)
        )
        self._poll.register(self._stop_reader, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="ci-doctor-watch", daemon=True)
        self._thread.start()

    def child_ended(self) -> None:
        """A child of ours has ended: an orphan, perhaps."""
        self._orphan_ended = True

    def finish(self, request: int | None) -> None:
        """The command has ended: look once more, and at nothing any more."""
        self.ended = clock.now()
        os.write(self._stop, b".")
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError):
            self._look()

    def close(self) -> None:
        """Give all file descriptors back."""
        if self.tree is not None:
            self.tree.close()
        self._refusals.close()
        self._poll.close()
        os.close(self._stop)
        os.close(self._stop_reader)

    # --- the thread ---

    def _run(self) -> None:
        try:
            self._look_until_the_end()
        except Exception as error:  # noqa: BLE001 - the job goes on as without a watch
            self.problem = f"the watch ended early: {type(error).__name__}: {error}"

    def _look_until_the_end(self) -> None:
        due = clock.now()
        spent = time.thread_time()
        while True:
            for descriptor, _ in self._poll.poll(max(0.0, due - clock.now())):
                if descriptor == self._stop_reader:
                    self.cpu_s = time.thread_time()
                    return
                self._end(descriptor)
            if clock.now() >= due:
                try:
                    self._look()
                except OSError:  # no descriptor is left for a moment
                    due = clock.now() + LONGEST_S
                    continue
                now = time.thread_time()
                due = clock.now() + next_pause(now - spent)
                spent = now

    def _look(self) -> None:
        tree = self.tree
        if tree is None:
            return
        now = clock.now()
        if self._orphan_ended:
            self._orphan_ended = False
            tree.reap()
        tree.look()
        for process in tree.take_ended():
            self._note_end(process)
        come, gone = self._listening.look(tree, now)
        self.listeners += come
        self.gone |= {id(listener): now for listener in gone}
        for port in self._refusals.read():
            self.refused.setdefault(port, deque(maxlen=_REFUSALS)).append(now)
        tree.recent(now - _RECENT_S)
        if self._pending:
            self._judge(now)

    def _watch(self, pidfd: int) -> None:
        self._poll.register(pidfd, select.EPOLLIN)

    def _unwatch(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)

    def _end(self, pidfd: int) -> None:
        tree = self.tree
        process = None if tree is None else tree.by_pidfd.get(pidfd)
        if tree is not None and process is not None:
            tree.end(process)

    def _note_end(self, process: Process) -> None:
        if process.returncode == _KILLED:
            # The counters are of the whole cgroup: only what they grew by is about this end.
            before, self._memory = self._memory, MemoryEvents.read()
            cause = oom_cause(before, self._memory)
            process.oom = None if cause is None else cause.describe()
        if may_have_served(process) and self.tree is not None and process is not self.tree.root:
            self._pending.append(process)

    # --- deaths ---

    def scene(self, now: float) -> Scene | None:
        """What is known now; None before the command runs."""
        if self.tree is None:
            return None
        return Scene(
            now=now,
            root=self.tree.root,
            living=tuple(self.tree.living.values()),
            recent=tuple(self.tree.recent(now - _RECENT_S)),
            listeners=tuple(self._listening.by_inode.values()),
            refused=self.refused,
        )

    def _judge(self, now: float) -> None:
        scene = self.scene(now)
        if scene is None or self.ended is not None:
            return
        said: list[Process] = []
        for process in tuple(self._pending):
            if any(_is_family(process, other) for other in said):
                self._pending.remove(process)
                continue
            waiting = waiting_for(process, scene)
            if waiting is not None:
                said.append(process)
                self._pending.remove(process)
                self._say(process, waiting, scene)
            elif not process.ports and now - (process.ended or now) > _RECENT_S:
                self._pending.remove(process)
        if said:
            self._pending = [
                each
                for each in self._pending
                if not any(_is_family(each, other) for other in said)
            ]

    def _say(self, process: Process, waiting: Waiting, scene: Scene) -> None:
        # Most scripts lose no server.
        from ci_doctor.watch.deaths import failure_of

        chain = foreground(scene.root, scene.living)
        place = next(filter(None, map(place_of, reversed(chain))), None)
        living = [each.kin for each in scene.living]
        failure = failure_of(process, waiting, place, living)
        death = SaidDeath(
            process=process, failure=failure, waiting=waiting, at=clock.now(), place=place
        )
        self.deaths.append(death)
        self._on_death(self, death)


def _is_family(one: Process, other: Process) -> bool:
    """Whether one of two that have ended was below the other."""
    return one in other.above() or other in one.above()


