# SPDX-License-Identifier: Apache-2.0
"""Acts on signals: a request to end cancels the running task, and cannot cut off its report."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ci_doctor.system import clock

if TYPE_CHECKING:
    import asyncio

# SIGHUP: the terminal or the agent is gone, and nobody else would stop the servers.
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# timeout(1) signals its child, and then the process group of this child: one request, sent twice.
_ECHO_S = 0.005
# Until a signal has reached every member of our process group.
_OF_GROUP_S = 0.1


class Interruption:
    """The first signal that arrived: `received`, None before. Each one cancels the watched task.

    `is_repeated` once a second one has arrived: somebody wants the end at once.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.is_repeated = False
        self._at = 0.0
        self._cancel: Callable[[], object] | None = None

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """Handle the signals while the context lasts.

        Not by the event loop's own handlers: those would leave gaps before and after the loop.
        """
        with _handled_by(self._arrived):
            yield

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Cancel the running task at each signal; at once, if one has arrived already."""
        # Late: most of those who handle signals have no loop.
        import asyncio

        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in one
        loop = task.get_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if self.received is not None:
            self._cancel()
        try:
            yield
        finally:
            self._cancel = None

    def _arrived(self, number: int, _frame: object) -> None:
        now = clock.now()
        if self.received is None:
            self.received = signal.Signals(number)
        elif now - self._at < _ECHO_S:
            return
        else:
            self.is_repeated = True
        self._at = now
        if self._cancel is not None:
            self._cancel()


@contextlib.contextmanager
def signals_noted() -> Iterator[list[signal.Signals]]:
    """Let no signal cut short the report, which must be whole; those that arrive are noted."""
    noted: list[signal.Signals] = []
    with _handled_by(lambda number, _: noted.append(signal.Signals(number))):
        yield noted


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, object], None]) -> Iterator[None]:
    earlier = {}
    for number in _NUMBERS:
        # nohup(1) has SIGHUP ignored: the user wants the job to outlive the terminal.
        if not (number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN):
            earlier[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in earlier.items():
            # None stands for a handler that was not installed from Python (signal.getsignal).
            signal.signal(number, signal.SIG_DFL if before is None else before)


@contextlib.contextmanager
def end_awaited(pidfd: int) -> "Iterator[asyncio.Future[None]]":
    """In a running loop, while the context lasts: what is done once the process has ended."""
    import asyncio

    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def settle() -> None:
        # A pidfd stays readable after the end: the loop would call this for ever.
        loop.remove_reader(pidfd)
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(pidfd, settle)
    try:
        yield ended
    finally:
        loop.remove_reader(pidfd)


async def hand_on(
    received: signal.Signals,
    pidfd: int,
    ended: "asyncio.Future[None]",
    *,
    limit_s: float,
    ctrl_c_s: float,
) -> None:
    """Let a command in our process group end as we were asked to; `ended` is done once it has.

    It is asked only if the signal that we received has not reached it by itself: Ctrl-C does, and
    then it has `ctrl_c_s` seconds, and so may a signal to the whole group. Returns `limit_s` seconds
    after it was asked at the latest.
    """
    import asyncio

    is_ctrl_c = received is signal.SIGINT and in_foreground()
    await asyncio.wait({ended}, timeout=ctrl_c_s if is_ctrl_c else _OF_GROUP_S)
    if ended.done():
        return
    # Of the others only SIGTERM: a program may take SIGHUP or SIGQUIT for something else.
    number = received if received is signal.SIGINT else signal.SIGTERM
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)
        await asyncio.wait({ended}, timeout=limit_s)


def in_foreground() -> bool:
    """Whether Ctrl-C on our terminal reaches our whole process group, and so its commands too."""
    try:
        # Any of the three: the terminal is the same, and each may be redirected.
        for number in (0, 1, 2):
            if os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp():
                return True
    except OSError:  # the terminal has gone away
        return False
    return False
