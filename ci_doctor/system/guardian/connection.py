# SPDX-License-Identifier: Apache-2.0
"""Acts on the guardian: requests to it, and what it answers and reports, over one socket."""

import contextlib
import os
import select
import subprocess
from collections.abc import Iterable
from typing import Any

from ci_doctor.errors import InfraError
from ci_doctor.system import clock
from ci_doctor.system.guardian.wire import Wire
from ci_doctor.system.processes.process import ProcessEnding

READY = 0  # the token of the first message, which answers no request
_ANSWER_S = 5.0
_STOPPED_HINT = (
    "see what stopped or killed the process ci-doctor-guard: the kernel's log, or the agent's"
)


class GuardianLostError(InfraError):
    """The guardian is gone, or was ended because it did not answer."""


Answer = tuple[tuple[Any, ...], list[int]]  # a message without its token, and file descriptors


class GuardianConnection:
    """Our end of the socket to a guardian, and the guardian's process. Use it from one thread.

    `gone` says that the guardian has ended, and that all it sent was read.
    """

    def __init__(self, process: subprocess.Popen[bytes], wire: Wire) -> None:
        self.gone = False
        self._process = process
        self._wire = wire
        self._answers: dict[int, Answer] = {}
        self._endings: dict[int, ProcessEnding] = {}

    @property
    def pid(self) -> int:
        """The guardian's own."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How the guardian itself ended; None while it lives."""
        return self._process.returncode

    def put(self, message: tuple[Any, ...], descriptors: Iterable[int] = ()) -> None:
        """Queue a message; the next `exchange` sends it."""
        self._wire.put(message, descriptors)

    def answer(self, token: int, limit_s: float | None = None) -> Answer:
        """Wait for the answer to the request `token`.

        Raises GuardianLostError if the guardian is gone, or does not answer within `limit_s` seconds
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
        raise GuardianLostError(f"the guardian process {state}", hint=_STOPPED_HINT)

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
