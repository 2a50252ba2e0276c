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

from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.guardian.connection import READY, Answer, GuardianConnection
from ci_doctor.system.guardian.launch import SCARCE, SECCOMP, launch
from ci_doctor.system.processes.children import children_of
from ci_doctor.system.processes.process import (
    Child,
    ProcessEnding,
    adopted_ending,
    describe_exit,
    observed_ending,
)
from ci_doctor.system.processes.process_table import look_up
from ci_doctor.system.processes.subreaper import become_subreaper

_START_S = 30.0  # a cold file system under a loaded machine
_STATUS_S = 1.0
_Program = tuple[list[bytes], dict[bytes, bytes], bytes]  # words, environment, directory


class Guardian:
    """Made by `start`. Call `close` once nothing runs below it any more. Use it from one thread.

    `pid` is its own; `identity` distinguishes it from a later process with that pid.
    """

    def __init__(self, pid: int, connection: GuardianConnection) -> None:
        self.pid = pid
        self._connection = connection
        self._last_token = READY
        self._living: dict[int, Child] = {}
        kin = look_up(pid)
        self.identity = (pid, kin.started if kin else 0)

    @classmethod
    def start(cls) -> "Guardian":
        """Start a guardian and wait until it is ready; we become a subreaper too.

        Raises InfraError if the machine does not let us.
        """
        become_subreaper()
        process, wire = launch()
        guardian = cls(process.pid, GuardianConnection(process, wire))
        try:
            guardian._wait_until_ready()
        except BaseException:
            guardian.close()
            raise
        return guardian

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
        InfraError if the guardian is gone or does not answer.
        """
        program = _program(words, environment, directory)
        stop = _program(stop_words, environment, directory) if stop_words else None
        streams = (input, output, output if error is None else error)
        given = tuple(stream is not None for stream in streams)
        began = clock.now()
        self._last_token += 1
        token = self._last_token
        self._connection.put(
            ("spawn", token, program, stop, given, foreground),
            [stream for stream in streams if stream is not None],
        )
        answer = self._connection.answer(token)
        _check_started(answer, words, directory)
        (_, pid), descriptors = answer
        if not descriptors:
            # It runs, but we have no free descriptor for its pidfd, and without one its end
            # would go unnoticed.
            self._connection.put(("kill", token))
            self._connection.exchange(0.0)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        child = Child(
            pid=pid,
            pidfd=descriptors[0],
            started_at=began,
            ending=partial(self._ending, token, pid),
        )
        self._living[pid] = child
        return child

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

    def _wait_until_ready(self) -> None:
        try:
            (_, refused), _ = self._connection.answer(READY, _START_S)
        except InfraError as error:
            how = describe_exit(self._connection.returncode or 0)
            raise InfraError(f"the guardian process did not start ({how})", hint=SCARCE) from error
        if refused:
            raise InfraError(
                f"the guardian process may not adopt orphans: {os.strerror(refused)}", hint=SECCOMP
            )

    def _ending(self, token: int, pid: int, pidfd: int) -> ProcessEnding | None:
        """How a child ended; None while it lives. `pidfd` is -1 once it is closed."""
        # The kernel wakes the guardian and us at the same moment, and the guardian reports at once.
        ending = self._connection.ending(token, _STATUS_S if pidfd >= 0 else 0.0)
        if ending is None and self._connection.gone:
            self._connection.lose()
            ending = self._connection.ending(token, 0.0) or adopted_ending(pid, pidfd)
        # The guardian is stopped, or was killed between its wait and its report.
        if ending is None and pidfd >= 0:
            ending = observed_ending(pid, pidfd)
        if ending is not None:
            self._living.pop(pid, None)
        return ending


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
