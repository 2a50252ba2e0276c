# SPDX-License-Identifier: Apache-2.0
"""Acts on signals: those that ask to end do so to a running task in order, and cannot end its report."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ci_doctor.system import clock

if TYPE_CHECKING:
    import asyncio

# SIGHUP: the terminal or the agent that gave us one is gone, and nobody else would stop the servers.
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# timeout(1) signals its child, and then the process group that this child is in: one wish, heard twice.
_ECHO_S = 0.005


class Interruption:
    """The first signal that arrived, once one has: `received`. Each one cancels the task that `watch` was given."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._at = 0.0
        self._cancel: Callable[[], object] | None = None

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """From here to the end signals come to this object: the event loop's own handlers would leave gaps around it."""
        with _handled_by(self._arrived):
            yield

    @contextlib.contextmanager
    def watch(self, task: "asyncio.Task[Any]") -> Iterator[None]:
        """Cancel `task` at each signal, also at once where one has arrived already."""
        loop = task.get_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if self.received is not None:
            self._cancel()
        try:
            yield
        finally:
            self._cancel = None

    def _arrived(self, number: int, _frame: object) -> None:
        if self.received is not None and clock.now() - self._at < _ECHO_S:
            return
        self.received, self._at = self.received or signal.Signals(number), clock.now()
        if self._cancel is not None:
            self._cancel()


def signals_ignored() -> contextlib.AbstractContextManager[None]:
    """No signal is heard here: for the report of a run that one has ended, which is short work and must be whole."""
    return _handled_by(signal.SIG_IGN)


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, object], None] | signal.Handlers) -> Iterator[None]:
    # nohup(1) has SIGHUP ignored, and means it.
    numbers = [number for number in _NUMBERS if not _is_ignored_hangup(number)]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            # None stands for a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if earlier is None else earlier)


def _is_ignored_hangup(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
