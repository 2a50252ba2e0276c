# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a small process between us and what we start, which ends it all when we are killed.

The guardian is the parent of all that we start, and a child subreaper (prctl(2)): what becomes an orphan below it stays
below it. It watches our pidfd. When it is killed itself, its children become ours, because we are a subreaper too.
"""

import contextlib
import errno
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.guardian.launch import SCARCE, SECCOMP, launch
from ci_doctor.system.guardian.wire import Wire
from ci_doctor.system.processes.children import children_of
from ci_doctor.system.processes.process import (
    Child,
    ProcessEnding,
    adopted_ending,
    describe_exit,
    observed_ending,
)
from ci_doctor.system.processes.process_table import look_up
from ci_doctor.system.processes.tree import become_subreaper

_START_S = 30.0  # a cold file system under a loaded machine
_ANSWER_S = 5.0
_STATUS_S = 1.0
_STOPPED_HINT = (
    "see what stopped or killed the process ci-doctor-guard: the kernel's log, or the agent's"
)


class Guardian:
    """Made by `start`; give it back by `close`, once nothing runs below it any more. Use it from one thread.

    `pid` is its own; `identity` tells it from a later process with that pid.
    """

    def __init__(self, process: subprocess.Popen[bytes], wire: Wire) -> None:
        self.pid = process.pid
        self._process = process
        self._wire = wire
        self._gone = False
        self._last_token = 0
        self._answers: dict[int, tuple[tuple[Any, ...], list[int]]] = {}
        self._endings: dict[int, ProcessEnding] = {}
        self._living: dict[int, Child] = {}
        kin = look_up(self.pid)
        self.identity = (self.pid, kin.started if kin else 0)

    @classmethod
    def start(cls) -> "Guardian":
        """A guardian that is ready; we become a subreaper too. Raises InfraError where the machine does not let us."""
        become_subreaper()
        guardian = cls(*launch())
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
        """Run `words` as the leader of a new session, or with `foreground` in our own session and process group.

        `environment` is the whole of its environment; its PATH finds the command. stdin is empty unless `input` is a file
        descriptor; stdout and stderr go to `output` and `error` (None: the same). `stop_words` are run, with the same
        environment and directory, if we are gone while it lives. Raises OSError where it cannot run (`filename` is the
        directory where that is to blame), InfraError where the guardian is gone or does not answer.
        """
        streams = (input, output, output if error is None else error)
        given = tuple(descriptor is not None for descriptor in streams)
        variables = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        folder = os.fsencode(Path(directory).absolute())
        program = ([os.fsencode(word) for word in words], variables, folder)
        stop = (
            ([os.fsencode(word) for word in stop_words], variables, folder) if stop_words else None
        )
        began = clock.now()
        self._last_token += 1
        token = self._last_token
        self._wire.put(
            ("spawn", token, program, stop, given, foreground),
            [descriptor for descriptor in streams if descriptor is not None],
        )
        (kind, *said), descriptors = self._answer(token)
        if kind == "failed":
            step, number = said
            raise OSError(
                number,
                os.strerror(number),
                str(directory) if step == "chdir" else next(iter(words), ""),
            )
        if (
            not descriptors
        ):  # it runs, and we have no room for its pidfd: without one its end would go unnoticed
            self._wire.put(("kill", token))
            self._exchange(0.0)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        pid = said[0]
        child = Child(
            pid=pid,
            pidfd=descriptors[0],
            started_at=began,
            ending=partial(self._ending, token, pid),
        )
        self._living[pid] = child
        return child

    def claims(self, pid: int) -> bool:
        """Whether `pid`, which has ended and is our own child by now, was spawned here: its status is then kept for it."""
        child = self._living.get(pid)
        if child is not None:
            child.returncode()
        return child is not None

    def close(self) -> None:
        """End and reap it, once all that was started is stopped. May be called again.

        What still lives below it becomes our child and is left alone; how a process ended can still be asked.
        """
        ours_then = children_of(self.pid) if self._process.returncode is None else []
        self._lose()
        for pid in ours_then:
            if not self.claims(pid):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _wait_until_ready(self) -> None:
        try:
            (_, refused), _ = self._answer(0, _START_S)
        except InfraError as error:
            how = describe_exit(self._process.returncode)
            raise InfraError(f"the guardian process did not start ({how})", hint=SCARCE) from error
        if refused:
            raise InfraError(
                f"the guardian process may not adopt orphans: {os.strerror(refused)}", hint=SECCOMP
            )

    def _answer(
        self, token: int, limit_s: float | None = None
    ) -> tuple[tuple[Any, ...], list[int]]:
        deadline = clock.now() + (_ANSWER_S if limit_s is None else limit_s)
        try:
            while (
                token not in self._answers
                and not self._gone
                and (left := deadline - clock.now()) > 0
            ):
                self._exchange(left)
        except (
            BaseException
        ):  # a signal's exception: file descriptors that are not sent yet may be closed by then
            if self._wire.unsent:
                self._lose()
            raise
        if token in self._answers:
            return self._answers.pop(token)
        state = "is gone" if self._gone else "does not answer"
        self._lose()  # what it would do later, nobody would know of; what it has started becomes ours
        raise InfraError(f"the guardian process {state}", hint=_STOPPED_HINT)

    def _exchange(self, limit_s: float) -> bool:
        """Say what is to be said and take in what has come, waiting at most `limit_s` for that; whether any did."""
        with contextlib.suppress(OSError):  # what it said before its end is still to be read
            self._wire.send()
        poll = select.poll()
        poll.register(
            self._wire.fileno(), select.POLLIN | (select.POLLOUT if self._wire.unsent else 0)
        )
        if not poll.poll(max(0.0, limit_s) * 1000):
            return False
        messages = self._wire.receive()
        for message, descriptors in messages or ():
            self._take(message, descriptors)
        self._gone = self._gone or messages is None
        return True

    def _take(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        kind, *said = message
        if kind == "exited":
            token, returncode, peak_rss = said
            self._endings[token] = ProcessEnding(returncode=returncode, peak_rss=peak_rss)
        elif kind == "ready":
            self._answers[0] = (message, descriptors)
        else:
            token, *rest = said
            for _, unwanted in self._answers.values():  # of a call that an exception has ended
                for descriptor in unwanted:
                    os.close(descriptor)
            self._answers = {token: ((kind, *rest), descriptors)}

    def _ending(self, token: int, pid: int, pidfd: int) -> ProcessEnding | None:
        """How a child ended: the guardian is told of it at the same moment as we are, and says so at once."""
        deadline = clock.now() + (_STATUS_S if pidfd >= 0 else 0.0)
        self._exchange_until(token, deadline)
        ending = self._endings.pop(token, None)
        if ending is None and self._gone:
            self._lose()
            ending = self._endings.pop(token, None) or adopted_ending(pid, pidfd)
        if ending is None and pidfd >= 0:  # it was stopped, or killed before it told
            ending = observed_ending(pid, pidfd)
        if ending is not None:
            self._living.pop(pid, None)
        return ending

    def _exchange_until(self, token: int, deadline: float) -> None:
        first = True
        while token not in self._endings and not self._gone and (first or clock.now() < deadline):
            first = False
            self._exchange(deadline - clock.now())

    def _lose(self) -> None:
        """It is to end, if it has not: its children are ours then, and what it has said is read."""
        if self._process.returncode is None:
            self._process.kill()
            # The socket closes before the children change hands, which is done once it can be waited for.
            self._process.wait()
        while not self._gone and self._exchange(0.0):
            pass
        self._gone = True
        for _, descriptors in self._answers.values():
            for descriptor in descriptors:
                os.close(descriptor)
        self._answers.clear()
        self._wire.close()
