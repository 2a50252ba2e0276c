# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts them through the guardian, which ends them all if we are killed.

The guardian is the parent of all that we start, and a child subreaper (prctl(2)): an orphan below
it stays below it. It watches our pidfd. If it is killed itself, its children become ours, because
we are a subreaper too. Requests to it, what it answers and what it reports go over one socket.
"""

import contextlib
import errno
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.guardian_main import Wire
from ci_doctor.system.processes.cpu_wait import CpuWaits, extended
from ci_doctor.system.processes.process import (
    Child,
    ProcessEnding,
    adopted_ending,
    describe_exit,
    observed_ending,
)
from ci_doctor.system.processes.process_table import children_of, look_up
from ci_doctor.system.processes.tree import become_subreaper

READY = 0  # the token of the first message, which answers no request
_ANSWER_S = 5.0
_STOPPED_HINT = (
    "see what stopped or killed the process ci-doctor-guard: the kernel's log, or the agent's"
)


Answer = tuple[tuple[Any, ...], list[int]]  # a message without its token, and file descriptors


SCARCE = (
    "see what is used up: `ulimit -n` (file descriptors), `ulimit -u` (processes), `ulimit -v` "
    "and the memory"
)
SECCOMP = "allow prctl(PR_SET_CHILD_SUBREAPER) in the container's seccomp profile"

_ROOT = Path(__file__).parents[2]
# By import and not as a script, so that it is compiled once. Our own root comes last in the path,
# so that it shadows nothing.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from ci_doctor.system.guardian_main import main; main()"
)
# What Python itself may need to start. The rest of a job's variables may be secret, and may be the
# marks by which an agent finds what it is to kill.
_KEPT = ("LD_LIBRARY_PATH",)


def launch() -> tuple[subprocess.Popen[bytes], Wire]:
    """Return a guardian that is about to be ready, and our end of the socket.

    It leads a process group of its own, so that a signal to ours does not reach it. It stays in
    our session: from another one it could not start a process in our group (setpgid(2)).
    Raises InfraError if the system lets us start none.
    """
    try:
        ours, its = socket.socketpair()
        with its:
            try:
                return _run(its.fileno()), Wire(ours)
            except OSError:
                ours.close()
                raise
    except OSError as error:
        raise InfraError(
            f"cannot start the guardian process: {error.strerror}", hint=SCARCE
        ) from error


def _run(channel: int) -> subprocess.Popen[bytes]:
    doctor = os.pidfd_open(os.getpid())
    try:
        # -I -S: without site-packages, whose .pth files could run any code in the guardian.
        python = [sys.executable, "-I", "-S", "-c", _PROGRAM]
        arguments = [str(_ROOT), str(channel), str(doctor), str(os.getpid())]
        return subprocess.Popen(
            [*python, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(channel, doctor),
            cwd="/",
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            process_group=0,
        )
    finally:
        os.close(doctor)


_START_S = 30.0  # a cold file system under a loaded machine
_STATUS_S = 1.0
_Program = tuple[list[bytes], dict[bytes, bytes], bytes]  # words, environment, directory


class Guardian:
    """Made by `start`. Call `close` once nothing runs below it any more. Use it from one thread.

    `pid` is its own; `identity` distinguishes it from a later process with that pid. `gone` says
    that it has ended, and that all it sent was read.
    """

    def __init__(self, process: subprocess.Popen[bytes], wire: Wire) -> None:
        self.gone = False
        self.pid = process.pid
        kin = look_up(process.pid)
        self.identity = (process.pid, kin.started if kin else 0)
        self._process = process
        self._wire = wire
        self._answers: dict[int, Answer] = {}
        self._endings: dict[int, ProcessEnding] = {}
        self._last_token = READY
        self._living: dict[int, Child] = {}

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
        guardian = cls(*launch())
        try:
            (_, refused), _ = guardian.answer(READY, _START_S)
        except BaseException as error:
            guardian.lose()
            if not isinstance(error, InfraError):
                raise
            how = describe_exit(guardian._process.returncode or 0)
            raise InfraError(f"the guardian process did not start ({how})", hint=SCARCE) from error
        if refused:
            guardian.lose()
            raise InfraError(
                f"the guardian process may not adopt orphans: {os.strerror(refused)}", hint=SECCOMP
            )
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
        InfraError if the guardian is gone or does not answer: what it may have started is ours then.
        """
        streams = (input, output, output if error is None else error)
        given = tuple(stream is not None for stream in streams)
        stop = _program(stop_words, environment, directory) if stop_words else None
        began = clock.now()
        self._last_token += 1
        token = self._last_token
        self.put(
            ("spawn", token, _program(words, environment, directory), stop, given, foreground),
            [stream for stream in streams if stream is not None],
        )
        (kind, *fields), descriptors = self.answer(token)
        if kind == "failed":
            step, number = fields
            name = str(directory) if step == "chdir" else next(iter(words), "")
            raise OSError(number, os.strerror(number), name)
        (pid,) = fields
        if not descriptors:
            # It runs, but we have no free descriptor for its pidfd, and without one its end
            # would go unnoticed.
            self.put(("kill", token))
            self.exchange(0.0)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        ending = partial(self._ending, token, pid)
        child = Child(pid=pid, pidfd=descriptors[0], started_at=began, ending=ending)
        self._living[pid] = child
        return child

    @property
    def adopters(self) -> frozenset[int]:
        """The process whose children orphans become: this guardian, or we once it is gone."""
        kin = look_up(self.pid)
        is_gone = kin is None or kin.ended or kin.identity != self.identity
        return frozenset({os.getpid() if is_gone else self.pid})

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
        if self._process.returncode is None:
            orphans = children_of(self.pid)
        self.lose()
        for pid in orphans:
            if not self.claims(pid):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _ending(self, token: int, pid: int, pidfd: int) -> ProcessEnding | None:
        """How a child ended; None while it lives. `pidfd` is -1 once it is closed."""
        # The kernel wakes the guardian and us at the same moment, and the guardian reports at once.
        ending = self.ending(token, 0.0)
        if ending is None and pidfd >= 0:
            ending = self._reported(token)
        if ending is None and self.gone:
            self.lose()
            ending = self.ending(token, 0.0) or adopted_ending(pid, pidfd)
        # The guardian is stopped, or was killed between its wait and its report.
        if ending is None and pidfd >= 0:
            ending = observed_ending(pid, pidfd)
        if ending is not None:
            self._living.pop(pid, None)
        return ending

    def _reported(self, token: int) -> ProcessEnding | None:
        """How a child ended, as soon as the guardian reports; None if it is gone or stopped."""
        waits = CpuWaits(lambda: (self.pid,))
        before = waits.now()
        ending = self.ending(token, _STATUS_S)
        if ending is not None or self.gone:
            return ending
        # Without a CPU it can report nothing.
        left_s = extended(_STATUS_S, waits.since(before)) - _STATUS_S
        return self.ending(token, left_s)

    def put(self, message: tuple[Any, ...], descriptors: Iterable[int] = ()) -> None:
        """Queue a message; the next `exchange` sends it."""
        self._wire.put(message, descriptors)

    def answer(self, token: int, limit_s: float | None = None) -> Answer:
        """Wait for the answer to the request `token`.

        Raises InfraError if the guardian is gone, or does not answer within `limit_s` seconds
        (None: 5); it is ended then, and what it has started becomes ours.
        """
        try:
            self._wait_for(token, _ANSWER_S if limit_s is None else limit_s)
        except BaseException:
            # A signal's exception. File descriptors that are not sent yet may be closed by the
            # caller before the next exchange, and their numbers may then mean other files.
            if self._wire.unsent:
                self.lose()
            raise
        if token in self._answers:
            return self._answers.pop(token)
        state = "is gone" if self.gone else "does not answer"
        # What it would do later, nobody would learn of.
        self.lose()
        raise InfraError(f"the guardian process {state}", hint=_STOPPED_HINT)

    def ending(self, token: int, limit_s: float) -> ProcessEnding | None:
        """How the child `token` ended; None if the guardian does not report it in `limit_s`.

        A `limit_s` of 0 still reads what has arrived.
        """
        deadline = clock.now() + limit_s
        if token not in self._endings and not self.gone:
            self.exchange(limit_s)
        while token not in self._endings and not self.gone and clock.now() < deadline:
            self.exchange(deadline - clock.now())
        return self._endings.pop(token, None)

    def exchange(self, limit_s: float) -> bool:
        """Send what is queued and read what has come, waiting at most `limit_s` seconds for that.

        Returns whether anything came.
        """
        # Not an error yet: what the guardian wrote before its end can still be read.
        with contextlib.suppress(OSError):
            self._wire.send()
        events = select.POLLIN
        if self._wire.unsent:
            events |= select.POLLOUT
        poll = select.poll()
        poll.register(self._wire.fileno(), events)
        if not poll.poll(max(0.0, limit_s) * 1000):
            return False
        messages = self._wire.receive()
        if messages is None:
            self.gone = True
            return True
        for message, descriptors in messages:
            self._take(message, descriptors)
        return True

    def lose(self) -> None:
        """End the guardian if it lives. Its children are ours then, and all it sent is read."""
        if self._process.returncode is None:
            self._process.kill()
            # Its socket closes before its children change parents (exit_notify in kernel/exit.c);
            # that is done once it can be waited for.
            self._process.wait()
        while not self.gone and self.exchange(0.0):
            pass
        self.gone = True
        self._drop_answers()
        self._wire.close()

    def _wait_for(self, token: int, limit_s: float) -> None:
        deadline = clock.now() + limit_s
        while token not in self._answers and not self.gone:
            left_s = deadline - clock.now()
            if left_s <= 0:
                return
            self.exchange(left_s)

    def _take(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        kind, *fields = message
        if kind == "exited":
            token, returncode, peak_rss = fields
            self._endings[token] = ProcessEnding(returncode=returncode, peak_rss=peak_rss)
        elif kind == "ready":
            self._answers[READY] = (message, descriptors)
        else:
            token, *rest = fields
            # One request is under way at a time. An older answer is of a call that an exception
            # has ended, and nobody will fetch it.
            self._drop_answers()
            self._answers[token] = ((kind, *rest), descriptors)

    def _drop_answers(self) -> None:
        for _, descriptors in self._answers.values():
            for descriptor in descriptors:
                os.close(descriptor)
        self._answers.clear()


def _program(words: Sequence[str], environment: Mapping[str, str], directory: Path) -> _Program:
    """What the guardian needs to run `words`, as bytes."""
    variables = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    folder = os.fsencode(Path(directory).absolute())
    return [os.fsencode(word) for word in words], variables, folder
