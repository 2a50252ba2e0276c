# SPDX-License-Identifier: Apache-2.0
"""Acts on signals: those that arrive here are noted, to be handed on in order."""

import os
import select
import signal
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

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
