# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts them through the guardian, which ends them all if we are killed.

The guardian is the parent of all that we start, and a child subreaper (prctl(2)): an orphan below
it stays below it. It watches our pidfd. If it is killed itself, its children become ours, because
we are a subreaper too.
"""

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.guardian.beginning import begin
from ci_doctor.system.guardian.connection import (
    READY,
    Answer,
    GuardianConnection,
    GuardianLostError,
)
from ci_doctor.system.guardian.launch import SCARCE
from ci_doctor.system.guardian.strays import find_stray, ticks_now
from ci_doctor.system.processes.children import children_of
from ci_doctor.system.processes.cpu_wait import CpuWaits
from ci_doctor.system.processes.extension import extended
from ci_doctor.system.processes.process import (
    Child,
    ProcessEnding,
    adopted_ending,
    observed_ending,
)
from ci_doctor.system.processes.process_table import look_up
from ci_doctor.system.processes.subreaper import become_subreaper

_STATUS_S = 1.0
_LOSSES = 3  # of guardians in one request, before it fails
_Program = tuple[list[bytes], dict[bytes, bytes], bytes]  # words, environment, directory


class _Request(Struct, frozen=True, kw_only=True):
    """A process to be started, and with which descriptors as its streams (None: /dev/null)."""

    words: tuple[str, ...]
    directory: Path
    program: _Program
    stop: _Program | None
    streams: tuple[int | None, ...]
    foreground: bool


class Guardian:
    """Made by `start`. Call `close` once nothing runs below it any more. Use it from one thread.

    `pid` is its own; `identity` distinguishes it from a later process with that pid. If it is
    killed, the next `spawn` starts another one, and both change. `losses` counts that.
    """

    def __init__(self, pid: int, connection: GuardianConnection) -> None:
        self.losses = 0
        self._last_token = READY
        self._living: dict[int, Child] = {}
        self._stops: dict[int, _Program] = {}
        self._take(pid, connection)

    def _take(self, pid: int, connection: GuardianConnection) -> None:
        self.pid = pid
        self._connection = connection
        kin = look_up(pid)
        self.identity = (pid, kin.started if kin else 0)

    @classmethod
    def start(cls) -> "Guardian":
        """Start a guardian and wait until it is ready; we become a subreaper too.

        Raises InfraError if the machine does not let us.
        """
        try:
            become_subreaper()
        except OSError as error:  # not even a module can be read
            message = f"cannot start the guardian process: {error.strerror}"
            raise InfraError(message, hint=SCARCE) from error
        return cls(*begin())

    def spawn(  # noqa: PLR0913 - what a process has
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: int,
        error: int | None = None,
        input: int | None = None,  # noqa: A002 - as subprocess has it
        foreground: bool = False,
        stop_words: Sequence[str] | None = None,
    ) -> Child:
        """Run `words` as the leader of a new session, or in our session and process group.

        `environment` is the whole of its environment; its PATH finds the command. stdin is empty
        unless `input` is a file descriptor; stdout and stderr go to `output` and `error` (None:
        the same). `foreground` keeps it in our session. `stop_words` are run, with the same
        environment and directory, if we are gone while it lives.

        Raises OSError if it cannot run (`filename` is the directory if that is the reason), and
        InfraError if the guardian is gone or does not answer, and so are those in its place.
        """
        request = _Request(
            words=tuple(words),
            directory=directory,
            program=_program(words, environment, directory),
            stop=_program(stop_words, environment, directory) if stop_words else None,
            streams=(input, output, output if error is None else error),
            foreground=foreground,
        )
        before, since, began = children_of(os.getpid()), ticks_now(), clock.now()
        for _ in range(_LOSSES):
            lost = self._connection
            try:
                return self._spawn(request)
            except GuardianLostError:
                # It may have started the process before it was killed.
                stray = find_stray(request.words, [*before, *self._living], since)
                child = None if stray is None else self._adopt(stray, request, lost, began)
                self._replace()
                if child is not None:
                    return child
        return self._spawn(request)

    def _spawn(self, request: _Request) -> Child:
        streams = request.streams
        given = tuple(stream is not None for stream in streams)
        began = clock.now()
        self._last_token += 1
        token = self._last_token
        connection = self._connection
        connection.put(
            ("spawn", token, request.program, request.stop, given, request.foreground),
            [stream for stream in streams if stream is not None],
        )
        answer = connection.answer(token)
        _check_started(answer, request.words, request.directory)
        (_, pid), descriptors = answer
        if not descriptors:
            # It runs, but we have no free descriptor for its pidfd, and without one its end
            # would go unnoticed.
            connection.put(("kill", token))
            connection.exchange(0.0)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        child = Child(
            pid=pid,
            pidfd=descriptors[0],
            started_at=began,
            ending=partial(self._ending, connection, token, pid),
        )
        self._note(child, request)
        return child

    def _adopt(self, pid: int, request: _Request, lost: GuardianConnection, began: float) -> Child:
        """Take a process that a lost guardian has started, and that is our own child by now."""
        child = Child(
            pid=pid,
            pidfd=os.pidfd_open(pid),
            started_at=began,
            ending=partial(self._ending, lost, self._last_token, pid),
        )
        self._note(child, request)
        return child

    def _note(self, child: Child, request: _Request) -> None:
        self._living[child.pid] = child
        if request.stop is not None:
            self._stops[child.pid] = request.stop

    def _replace(self) -> None:
        """Start another guardian in place of one that is gone, for what is started from now on.

        What the first one had started is ours; the second one ends it too if we are gone.
        """
        self.losses += 1
        self._take(*begin())
        for pid in self._living:
            kin = look_up(pid)
            if kin is not None:
                self._connection.put(("mind", pid, kin.started, self._stops.get(pid)))
        self._connection.exchange(0.0)

    @property
    def adopters(self) -> frozenset[int]:
        """The processes whose children orphans become: this guardian, and we after a loss."""
        kin = look_up(self.pid)
        is_gone = kin is None or kin.ended or kin.identity != self.identity
        if self.losses or is_gone:
            return frozenset({self.pid, os.getpid()})
        return frozenset({self.pid})

    def started(self, pid: int) -> bool:
        """Whether the living process `pid` was spawned here, and not adopted."""
        return pid in self._living

    def claims(self, pid: int) -> bool:
        """Whether `pid`, a child of ours that has ended, was spawned here; its status is then kept.

        It became our own child when the guardian ended.
        """
        child = self._living.get(pid)
        if child is None:
            return False
        child.returncode()
        return True

    def close(self) -> None:
        """End and reap the guardian, once all that was started is stopped. May be called again.

        What still lives below it becomes our child and is left alone. Its children can still be
        asked how they ended.
        """
        orphans = []
        if self._connection.returncode is None:
            orphans = children_of(self.pid)
        self._connection.lose()
        for pid in orphans:
            if not self.claims(pid):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _ending(
        self, connection: GuardianConnection, token: int, pid: int, pidfd: int
    ) -> ProcessEnding | None:
        """How a child of this connection's guardian ended; None while it lives.

        `pidfd` is -1 once it is closed.
        """
        # The kernel wakes the guardian and us at the same moment, and the guardian reports at once.
        ending = connection.ending(token, 0.0)
        if ending is None and pidfd >= 0:
            ending = _reported(connection, token)
        if ending is None and connection.gone:
            connection.lose()
            ending = connection.ending(token, 0.0) or adopted_ending(pid, pidfd)
        # The guardian is stopped, or was killed between its wait and its report.
        if ending is None and pidfd >= 0:
            ending = observed_ending(pid, pidfd)
        if ending is not None:
            self._living.pop(pid, None)
            self._stops.pop(pid, None)
        return ending


def _reported(connection: GuardianConnection, token: int) -> ProcessEnding | None:
    """How a child ended, as soon as its guardian reports; None if it is gone or stopped."""
    waits = CpuWaits(lambda: (connection.pid,))
    before = waits.now()
    ending = connection.ending(token, _STATUS_S)
    if ending is not None or connection.gone:
        return ending
    # Without a CPU it can report nothing.
    left_s = extended(_STATUS_S, waits.since(before)) - _STATUS_S
    return connection.ending(token, left_s)


def _program(words: Sequence[str], environment: Mapping[str, str], directory: Path) -> _Program:
    """What the guardian needs to run `words`, as bytes."""
    variables = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    folder = os.fsencode(Path(directory).absolute())
    return [os.fsencode(word) for word in words], variables, folder


def _check_started(answer: Answer, words: Sequence[str], directory: Path) -> None:
    """Raise the OSError of a program that could not be run."""
    (kind, *fields), _ = answer
    if kind != "failed":
        return
    step, number = fields
    name = str(directory) if step == "chdir" else next(iter(words), "")
    raise OSError(number, os.strerror(number), name)
