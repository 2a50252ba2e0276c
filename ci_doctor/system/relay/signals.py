# SPDX-License-Identifier: Apache-2.0
"""Acts on signals: those that arrive here are handed on in order, unless the whole group has got them.

A signal to our whole process group (Ctrl-C, an agent, timeout(1)) reaches the command without us; a
signal to us alone does not. Nothing in a signal tells which of the two it was. So another process
in the group holds back all signals, and says if asked which ones have arrived there. The kernel
serves the newest members of a group first: when a signal is here, it is there already.
"""

import contextlib
import os
import select
import signal
from collections.abc import Set as AbstractSet
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from ci_doctor.system.processes.process_table import look_up

if TYPE_CHECKING:
    from collections.abc import Iterable

# What a person, a shell or an agent sends to a job. SIGTTIN and SIGTTOU go to whole groups always.
RELAYED: Final = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
        signal.SIGABRT,
        signal.SIGWINCH,
        signal.SIGTSTP,
        signal.SIGCONT,
    }
)
# Requests to end.
ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_NOTED: Final = RELAYED | {signal.SIGCHLD}
# Python ignores these at its start, and an ignored signal stays ignored across exec.
IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
WAKE_UP: Final = 0  # no signal has this number


class Arrivals:
    """The signals that arrive while the context lasts. They are blocked until `open`.

    One that was ignored before stays ignored.
    """

    def __init__(self) -> None:
        self._earlier: dict[signal.Signals, Any] = {}
        self._mask: Iterable[int] = ()
        self._reader = -1
        self._writer = -1
        self._former_wakeup = -1

    def __enter__(self) -> Self:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _NOTED)
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        # The interpreter writes the number of each signal there (signal.set_wakeup_fd).
        self._former_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in _NOTED:
            handler = signal.getsignal(number)
            if handler is signal.SIG_IGN and number is not signal.SIGCHLD:
                continue
            self._earlier[number] = handler
            signal.signal(number, _note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._earlier.items():
            # None stands for a handler that was not installed from Python (signal.getsignal).
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._former_wakeup)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def open(self) -> None:
        """Let the signals through that were held back."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def restore_for_command(self) -> None:
        """In the process that becomes the command: all signals as they were before us."""
        for number, handler in self._earlier.items():
            restored = signal.SIG_DFL
            if handler is signal.SIG_IGN:
                restored = signal.SIG_IGN
            signal.signal(number, restored)
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        self.open()

    def wake_up(self) -> None:
        """Let `wait` return WAKE_UP; any thread may call it."""
        os.write(self._writer, bytes([WAKE_UP]))

    def wait(self, limit_s: float | None = None) -> tuple[int, ...]:
        """The numbers that have arrived, each once, SIGCHLD last; none after `limit_s` seconds."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        limit_ms = None if limit_s is None else max(0.0, limit_s) * 1000
        if not poll.poll(limit_ms):
            return ()
        numbers = dict.fromkeys(os.read(self._reader, 4096))
        # A signal that ended the command came before its end.
        return tuple(sorted(numbers, key=lambda number: number == signal.SIGCHLD))


def _note(_number: int, _frame: FrameType | None) -> None:
    """A handler of Python's own is needed for the number to be written."""


_FAREWELL: Final = b"."
_QUESTION: Final = b"?"
_LAST: Final = 0  # ends an answer; no signal has this number
# It answers in microseconds. After this long, see whether somebody has stopped it.
_PATIENCE_MS: Final = 100


class GroupProbe:
    """Lives while the context lasts, in our process group.

    If we are killed, it kills the process `command` by the same signal, as the kernel would have
    done if that stood in our place.
    """

    def __init__(self, command: int, signals: AbstractSet[signal.Signals]) -> None:
        self._command = command
        self._signals = signals
        self._arrived: set[int] = set()
        self._owed = 0  # answers
        self._pid = -1
        self._questions = -1
        self._answers = -1

    def __enter__(self) -> Self:
        questions, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _serve(questions, answers, self._command, self._signals)
        os.close(questions)
        os.close(answers)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # somebody has killed it
            os.write(self._questions, _FAREWELL)
        os.close(self._questions)
        os.close(self._answers)
        # Stopped with the whole group, it would not hear us.
        os.kill(self._pid, signal.SIGCONT)
        os.waitpid(self._pid, 0)

    def has_got(self, number: int) -> bool:
        """Whether the signal `number` went to the whole group, since this was asked last."""
        self._ask()
        if number in self._arrived:
            self._arrived.remove(number)
            return True
        return False

    def _ask(self) -> None:
        try:
            os.write(self._questions, _QUESTION)
        except OSError:  # somebody has killed it
            return
        self._owed += 1
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        while self._owed:
            if poll.poll(_PATIENCE_MS):
                answer = os.read(self._answers, 512)
                if not answer:
                    return
                self._take(answer)
            elif self._is_stopped():
                return

    def _take(self, answer: bytes) -> None:
        for number in answer:
            if number == _LAST:
                self._owed -= 1
            # Not from late answers to earlier questions: those signals have been handed on.
            elif self._owed == 1:
                self._arrived.add(number)

    def _is_stopped(self) -> bool:
        """On a busy machine it may only be late; then its answer must be waited for."""
        kin = look_up(self._pid)
        return kin is not None and kin.is_stopped


def _serve(
    questions: int, answers: int, command: int, signals: AbstractSet[signal.Signals]
) -> NoReturn:
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        # Unlike a pid, it names no other process later.
        pidfd = os.pidfd_open(command)
        _close_all_but(questions, answers, pidfd)
        while (word := os.read(questions, 1)) == _QUESTION:
            os.write(answers, bytes((*_pending(signals), _LAST)))
        if word != _FAREWELL:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        # Nothing of ours may be done twice: no handler at exit, no buffered text.
        os._exit(0)


def _pending(signals: AbstractSet[signal.Signals]) -> list[int]:
    """Those of `signals` that are held back here; they are forgotten."""
    numbers = []
    while (info := signal.sigtimedwait(signals, 0)) is not None:
        numbers.append(info.si_signo)
    return numbers


def _close_all_but(*kept: int) -> None:
    """Nobody may wait for the end of a stream because this process has it open."""
    start = 0
    for descriptor in sorted(kept):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))
