# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: where a run of pytest writes, on our own streams and to a log."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ci_doctor.system.relay.output import (
    STDERR,
    Channel,
    CommandLog,
    Pump,
    open_channel_to,
    open_channels,
)

_LOG_LIMIT: Final = 64 * 1024 * 1024
_LOG_MODE: Final = 0o600
# pytest writes a dot for each test, and passing a dot on costs more than most of what ci-doctor does
# for that test. Nobody sees that a dot comes so much later.
_PAUSE_MS: Final = 10


class KeptOutput:
    """The output goes to the log at `path` alone. `output` and `error` are for the process."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.output = os.open(path, flags, _LOG_MODE)
        self.error = self.output

    def begin(self) -> None:
        """Nothing: the process writes to the file itself."""

    async def finish(self, limit_s: float) -> None:  # noqa: ARG002 - as the other one
        """Give the file back."""
        os.close(self.output)


class ShownOutput:
    """The output passes through to our own streams, as it is, and to the log at `path`.

    on_stderr: all of it goes to stderr, because our stdout is for data. Call `begin` in the event
    loop, before the process is started.
    """

    def __init__(self, path: Path, *, on_stderr: bool) -> None:
        self._log = CommandLog(path, _LOG_LIMIT)
        self._channels = (open_channel_to(STDERR),) if on_stderr else open_channels()
        self.output = self._channels[0].inlet
        self.error = self._channels[-1].inlet
        self._stopper, self._stop = os.pipe()
        self._pumps: list[Pump] = []
        self._ended: list[asyncio.Future[None]] = []

    def begin(self) -> None:
        """Start to pass on."""
        loop = asyncio.get_running_loop()
        with _signals_blocked():
            for channel in self._channels:
                self._start(channel, loop)

    def _start(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        ended: asyncio.Future[None] = loop.create_future()
        self._ended.append(ended)

        def on_end() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, ended)

        # Of two streams, one that pauses would fall behind the other: the log keeps their order.
        pause_ms = _PAUSE_MS if len(self._channels) == 1 else 0
        pump = Pump(channel, self._stopper, self._log.add, on_end, pause_ms=pause_ms)
        self._pumps.append(pump)
        pump.start()

    async def finish(self, limit_s: float) -> None:
        """Pass on the rest, for at most `limit_s` seconds, and finish the log."""
        for channel in self._channels:
            channel.close_inlet()
        _, late = await asyncio.wait(self._ended, timeout=limit_s)
        os.close(self._stop)
        if late:
            await asyncio.wait(late, timeout=limit_s)
        self._log.finish()
        # A pump that is not over still writes to a reader who does not read: its thread keeps these.
        if all(pump.is_over for pump in self._pumps):
            os.close(self._stopper)
            for pump in self._pumps:
                if not pump.is_exhausted:
                    os.close(pump.channel.source)


Output = KeptOutput | ShownOutput


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Threads that are started here get no signal: only the main thread can handle one."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
