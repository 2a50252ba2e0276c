# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: looks at a running script from a thread beside it, says what it waits for in vain, ends what it left behind."""

import asyncio
import contextlib
import os
import select
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from msgspec import structs

from ci_doctor.model.facts.diagnose import WatchedDeath, WatchFacts
from ci_doctor.model.facts.launch import LeftBehind, LeftKind, LeftThing, ServiceFailure
from ci_doctor.render.formatting import duration
from ci_doctor.services.leak_ledger import SHARED_MEMORY, LeakLedger, LeakPolicy, removal
from ci_doctor.system import clock
from ci_doctor.system.processes.kernel_words import MemoryEvents, oom_cause
from ci_doctor.system.processes.listeners import Refusals, was_reached
from ci_doctor.system.processes.process_table import children_of, look_up
from ci_doctor.system.processes.tree import OwnTree, become_subreaper
from ci_doctor.watch.judging import (
    Listener,
    Process,
    Scene,
    Waiting,
    failed_first,
    foreground,
    is_background,
    is_client,
    is_pause,
    is_settled,
    is_shell_or_wrapper,
    may_have_served,
    named_ports,
    ports_of,
    served_unseen,
    starts_elsewhere,
    waiting_for,
)
from ci_doctor.watch.losses import front_at, is_bad_end, loss_of
from ci_doctor.watch.report import (
    Timeline,
    command_line,
    left_lines,
    lines_of,
    servers,
    stall_lines,
)
from ci_doctor.watch.stalls import StallWatch, WatchSettings, place_of
from ci_doctor.watch.tree import Listening, ScriptTree

SCRIPT: Final = "the script"
# What a script writes to temporary files is its own matter.
_KINDS: Final = frozenset(LeftKind) - {
    LeftKind.TEMPORARY_FILE,
    LeftKind.TEMPORARY_DIRECTORY,
    LeftKind.SOCKET,
}
_AT_ONCE: Final = 8
# Other jobs make shared memory, too: that may take this share of a core.
_SHARE_ALONE: Final = 0.003
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
        self._due = clock.now() + (time.thread_time() - began) / _SHARE_ALONE

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


# --- the thread beside a running script, and what it says of a wait in vain ---


SHORTEST_S: Final = 0.03
LONGEST_S: Final = 0.5
# Looks may take this share of one core.
_SHARE: Final = 0.009
# Three questions at ten seconds each, and fifteen of patience.
_RECENT_S: Final = 60.0
_REFUSALS: Final = 256
# The last jobs whose ends may be worth a word.
_JOBS: Final = 16
# A shell needs a millisecond or two for its next command, and curl ten to be refused.
_AFTER_PAUSE_S: Final = (0.002, 0.003, 0.005)
_QUICK_EVERY_S: Final = 0.25
# As long as the relay waits for last words.
_LAST_S: Final = 0.2


def next_pause(cost_s: float) -> float:
    """Seconds until the next look, if what was done since the last one took `cost_s` of CPU. Pure."""
    return min(max(SHORTEST_S, cost_s / _SHARE), LONGEST_S)


class ScriptWatch:
    """Watches the processes below the command of a `relay`, until it ends.

    `log` keeps what the command writes. `say` gets lines for whoever reads along; it is called in the
    thread of the watch, too.
    """

    def __init__(
        self, settings: WatchSettings, log: Path, say: Callable[[Iterable[str]], None]
    ) -> None:
        become_subreaper()
        self._settings = settings
        self._log = log
        self._say = say
        self._began = clock.now()
        self._tree: ScriptTree | None = None
        self._spawner = CommandSpawner()
        self._own = OwnTree(self._spawner)
        self._leftovers = Leftovers(settings.allowed)
        self._listening = Listening()
        self._refusals = Refusals()
        self._stalls = StallWatch(settings, log)
        self._timeline = Timeline()
        self._memory = MemoryEvents.read()
        self._listeners: list[Listener] = []
        self._gone: dict[int, float] = {}
        self._refused: dict[int, deque[float]] = {}
        self._named: set[int] = set()
        self._pending: list[Process] = []
        self._deaths: list[WatchedDeath] = []
        self._said: list[Process] = []
        self._jobs: deque[Process] = deque(maxlen=_JOBS)
        self._ends: list[ServiceFailure] = []
        self._left = LeftBehind()
        self._problem: str | None = None
        self._cpu_s = 0.0
        self._is_ended = False
        self._orphan_ended = False
        self._is_elsewhere = False
        self._quick_due = 0.0
        self._polled = 0.0
        self._poll = select.epoll()
        self._stop_reader, self._stop = os.pipe()
        self._thread: threading.Thread | None = None

    # --- what the relay calls, in the main thread ---

    def begin(self, command: int) -> None:
        """The command runs as the child `command`; our other children are none of it."""
        self._began = clock.now()
        spared = frozenset(children_of(os.getpid())) - {command}
        self._spawner.know(command, spared)
        self._poll.register(self._stop_reader, select.EPOLLIN)
        with contextlib.suppress(OSError, KeyError):
            self._tree = ScriptTree(command, spared, self._watch, self._unwatch, log=str(self._log))
            self._thread = threading.Thread(target=self._run, name="ci-doctor-watch", daemon=True)
            self._thread.start()

    def child_ended(self) -> None:
        """A child of ours has ended: an orphan, perhaps."""
        self._orphan_ended = True

    def finish(self, request: int | None) -> None:
        """The command has ended: what it has left is named, and ended if that is asked for."""
        os.write(self._stop, b".")
        tree = self._tree
        if tree is None or self._thread is None:
            self._problem = "the watch could not begin"
            return
        self._thread.join()
        with contextlib.suppress(OSError):
            self._await_last(tree)
            if request is None:
                self._note_losses(tree)
            left = self._leftovers.processes(tree, self._listeners_now(), clock.now())
            if left and (self._settings.cleans or self._is_ended or request is not None):
                self._say(left_lines(left, ended=True))
                end_all(self._own)
                self._await(tree, clock.now())
                left = self._leftovers.processes(tree, self._listeners_now(), clock.now())
            self._left = self._leftovers.left(left, self._listeners_now())
        for process in tree.living.values():
            self._timeline.add(process, clock.now())
        tree.close()
        self._refusals.close()
        self._poll.close()
        os.close(self._stop)
        os.close(self._stop_reader)

    def facts(self) -> WatchFacts:
        """What was seen, after the end."""
        return WatchFacts(
            commands=self._timeline.commands(self._began),
            servers=servers(self._listeners, self._gone, self._refused, self._named, self._began),
            deaths=tuple(self._deaths),
            ends=tuple(self._ends),
            stalls=tuple(self._stalls.found),
            left=self._left,
            unseen=0 if self._tree is None else self._tree.short,
            cpu_s=round(self._cpu_s, 3),
            is_ended=self._is_ended,
            problem=self._problem,
        )

    # --- the thread ---

    def _run(self) -> None:
        try:
            self._look_until_the_end()
        except Exception as error:  # noqa: BLE001 - the job goes on as without a watch
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._problem = (
                f"the watch ended early: {type(error).__name__}: {error} "
                f"({os.path.basename(place.filename)}:{place.lineno})"  # noqa: PTH119
            )

    def _look_until_the_end(self) -> None:
        tree = self._tree
        if tree is None:
            return
        due = clock.now()
        spent = time.thread_time()
        while not self._await(tree, due):
            if clock.now() < due:
                continue
            pause_s = LONGEST_S
            # No descriptor is left for a moment.
            with contextlib.suppress(OSError):
                self._look(tree)
                self._leftovers.look(tree)
                self._look_for_stall(tree)
                now = time.thread_time()
                pause_s = next_pause(now - spent)
                spent = now
            due = clock.now() + pause_s
        self._cpu_s = time.thread_time()

    def _await(self, tree: ScriptTree, due: float) -> bool:
        """Note which processes have ended until then; whether the script has, and all is over."""
        before, self._polled = self._polled, clock.now()
        ended = []
        for descriptor, _ in self._poll.poll(max(0.0, due - self._polled)):
            if descriptor == self._stop_reader:
                os.read(descriptor, 1)
                return True
            process = tree.by_pidfd.get(descriptor)
            if process is not None:
                process.alive = before
                ended.append(process)
                with contextlib.suppress(OSError):  # no descriptor is left for a moment
                    tree.end(process)
                    if self._pending and is_pause(process):
                        self._look_quickly(tree)
        for process in ended:
            if process.ports:
                process.front = front_at(process, tree.root, tree.living.values())
        return False

    def _look_quickly(self, tree: ScriptTree) -> None:
        """What comes after a pause in a loop is short, and tells what is waited for."""
        if clock.now() >= self._quick_due:
            self._quick_due = clock.now() + _QUICK_EVERY_S
            for pause_s in _AFTER_PAUSE_S:
                time.sleep(pause_s)
                tree.look()

    def _look(self, tree: ScriptTree) -> None:
        now = clock.now()
        if self._orphan_ended:
            self._orphan_ended = False
            tree.reap()
        tree.look()
        self._leftovers.note(tree.take_settled())
        come, gone = self._listening.look(tree, now)
        self._listeners += come
        self._gone |= {id(listener): now for listener in gone}
        lost = [each for each in gone if each.owner is None]
        for process in tree.take_ended():
            self._note_end(process, tree, lost)
        for port in self._refusals.read():
            self._refused.setdefault(port, deque(maxlen=_REFUSALS)).append(now)
        tree.recent(now - _RECENT_S)
        if self._pending and not self._is_ended:
            self._judge(tree, now)

    def _await_last(self, tree: ScriptTree) -> None:
        """What a shell has started beside the command (`> >(tee log)`) ends a moment after it."""
        limit = clock.now() + _LAST_S
        while tree.living and clock.now() < limit:
            self._await(tree, limit)
        self._orphan_ended = True
        # Of one without a pidfd nobody tells that it has ended.
        tree.look(at_all=True)
        self._look(tree)

    def _listeners_now(self) -> list[Listener]:
        return [each for each in self._listeners if id(each) not in self._gone]

    def _look_for_stall(self, tree: ScriptTree) -> None:
        stall = self._stalls.look(tuple(tree.living.values()), clock.now() - self._began)
        if stall is not None:
            self._say(stall_lines(stall))

    def _watch(self, pidfd: int) -> None:
        self._poll.register(pidfd, select.EPOLLIN)

    def _unwatch(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)

    def _note_end(self, process: Process, tree: ScriptTree, lost: Iterable[Listener]) -> None:
        if process.returncode == -signal.SIGKILL:
            # The counters are of the whole cgroup: only what they grew by is about this end.
            before, self._memory = self._memory, MemoryEvents.read()
            cause = oom_cause(before, self._memory)
            process.oom = None if cause is None else cause.describe()
        is_candidate = bool(process.ports) or is_background(process)
        if is_candidate and may_have_served(process) and process is not tree.root:
            process.ports |= served_unseen(process, lost) or self._reached(process)
            self._pending.append(process)
            self._jobs.append(process)
        self._timeline.add(process, clock.now())
        self._is_elsewhere = self._is_elsewhere or starts_elsewhere(process)
        if is_client(process):
            self._named |= named_ports(process.words)

    def _reached(self, process: Process) -> set[int]:
        """Its ports to which a connection came about although no look saw anybody listen there.

        What ended before it began is of the server before it.
        """
        if process.ports:
            return set()
        age_s = clock.now() - process.born
        seen = {each.port for each in (*self._listeners, *self._listening.by_inode.values())}
        with contextlib.suppress(OSError):
            return {port for port in ports_of(process) - seen if was_reached(port, age_s)}
        return set()

    def _judge(self, tree: ScriptTree, now: float) -> None:
        scene = Scene(
            now=now,
            root=tree.root,
            living=tuple(tree.living.values()),
            recent=tuple(tree.recent(now - _RECENT_S)),
            listeners=tuple(self._listening.by_inode.values()),
            refused=self._refused,
            tells_refusals=self._refusals.is_known,
            is_elsewhere=self._is_elsewhere or any(map(starts_elsewhere, tree.living.values())),
        )
        said: list[Process] = []
        # Of `timeout 60 server` the server is the one to name.
        for process in sorted(self._pending, key=is_shell_or_wrapper):
            waiting = waiting_for(process, scene)
            if waiting is not None and not any(_is_family(process, other) for other in said):
                said.append(process)
                self._said.append(process)
                self._note_death(failed_first(process, scene), waiting, scene)
        self._pending = [
            each
            for each in self._pending
            if (each.ports or now - (each.ended or now) < _RECENT_S)
            and not any(each is other or _is_family(each, other) for other in said)
            and not is_settled(each, scene)
        ]
        if said and self._settings.ends_on_death:
            self._is_ended = True
            self._say(("the script is ended: --on-death end",))
            end_all(self._own)

    def _note_losses(self, tree: ScriptTree) -> None:
        """The servers that had ended before the script failed."""
        if self._is_ended or tree.root.returncode in {None, 0}:
            return
        from ci_doctor.watch.deaths import failure_of, lost

        recent = tuple(tree.recent(clock.now() - _RECENT_S))
        living = [each.kin for each in tree.living.values()]
        said: list[Process] = []
        for process in self._pending:
            loss = loss_of(process, recent, self._listeners, self._refused)
            if loss is not None and not any(_is_family(process, other) for other in said):
                said.append(process)
                said_s = round(clock.now() - self._began, 2)
                self._deaths.append(lost(process, loss, living, said_s))
        said += self._said
        # Of `timeout 60 server` the server is the one to name.
        for process in sorted(self._jobs, key=is_shell_or_wrapper):
            is_of_said = any(process is other or _is_family(process, other) for other in said)
            if not is_of_said and is_bad_end(process, tree.root, recent, self._listeners):
                said.append(process)
                self._ends.append(failure_of(process, None, living))

    def _note_death(self, process: Process, waiting: Waiting, scene: Scene) -> None:
        # Most scripts lose no server.
        from ci_doctor.watch.deaths import failure_of, words_of

        chain = foreground(scene.root, scene.living)
        place = next(filter(None, map(place_of, reversed(chain))), None)
        failure = failure_of(process, waiting.port, [each.kin for each in scene.living])
        death = WatchedDeath(
            failure=failure,
            waits=words_of(waiting, place),
            said_s=round(clock.now() - self._began, 2),
            port=waiting.port,
        )
        self._deaths.append(death)
        self._say(lines_of(failure, death.waits))


def _is_family(one: Process, other: Process) -> bool:
    """Whether one of two that have ended was below the other."""
    return one in other.above() or other in one.above()
