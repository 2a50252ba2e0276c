# SPDX-License-Identifier: Apache-2.0
"""Acts on files and their descriptors: where a run of pytest writes."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ci_doctor.errors import InfraError
from ci_doctor.system.files.access import lasting_directory, make_directory
from ci_doctor.system.relay_output import (
    STDERR,
    Channel,
    CommandLog,
    Pump,
    open_channel_to,
    open_channels,
)

# --- those of a run of pytest, which no test can take away from us ---
# A test may remove any folder, fill a disk, or change permissions. What the recorder writes lies in memory
# (memfd_create(2)), and its processes open it through our descriptor. A log is open while it is written.

_MODE = 0o600


class HeldFile:
    """A file that is open here. place: the path by which other processes open it."""

    def __init__(self, descriptor: int, place: str) -> None:
        self.place = place
        self._descriptor = descriptor

    def write(self, content: bytes) -> None:
        """Append `content`. Raises OSError."""
        while content:
            content = content[os.write(self._descriptor, content) :]

    def read(self) -> bytes:
        """All that it holds."""
        parts = []
        place = 0
        while part := os.pread(self._descriptor, 1 << 24, place):
            parts.append(part)
            place += len(part)
        return b"".join(parts)


@contextlib.contextmanager
def held_file(path: Path) -> Iterator[HeldFile]:
    """An empty file in memory; at `path` where no other process could open it. Raises OSError."""
    descriptor = os.memfd_create(path.name)
    place = f"/proc/{os.getpid()}/fd/{descriptor}"
    try:
        # Some sandboxes let nobody open it by that path.
        os.close(os.open(place, os.O_WRONLY | os.O_APPEND))
    except OSError:
        os.close(descriptor)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor, place = os.open(path, flags, _MODE), str(path)
    try:
        yield HeldFile(descriptor, place)
    finally:
        os.close(descriptor)


class KeptLog:
    """The log of one run at `path`, which is made again if a test removed it. To be closed.

    It is empty, in the first of `folders` that takes it, else in a new one. Raises InfraError.
    """

    def __init__(self, name: str, *folders: Path) -> None:
        problem = ""
        for folder in folders:
            try:
                make_directory(folder)
                self._open(folder / name)
            except OSError as error:
                problem = problem or f"{error.strerror}: {folder}"
            else:
                return
        try:
            self._open(lasting_directory("pytest") / name)
        except OSError as error:
            raise InfraError(
                f"what pytest writes can be kept nowhere: {problem or error}",
                hint="the tests removed or locked the folder; look at the end of the output",
            ) from error

    def _open(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, _MODE)
        self.path = path

    def close(self) -> None:
        """Restore it, and hold it no longer."""
        self.restore()
        os.close(self._descriptor)

    def restore(self) -> None:
        """Write the log anew if the file at its path is another one, or none."""
        ours = os.fstat(self._descriptor)
        try:
            there = self.path.lstat()
            if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                return
        except OSError:
            pass
        with contextlib.suppress(OSError):
            make_directory(self.path.parent)
            with open(f"/proc/self/fd/{self._descriptor}", "rb") as source:  # noqa: PTH123
                handle, name = tempfile.mkstemp(dir=self.path.parent)
                with os.fdopen(handle, "wb") as target:
                    shutil.copyfileobj(source, target)
            Path(name).replace(self.path)


# --- where a run of pytest writes, on our own streams and to a log ---

_LOG_LIMIT: Final = 64 * 1024 * 1024
# pytest writes a dot for each test, and passing a dot on costs more than most of what ci-doctor does
# for that test. Nobody sees that a dot comes so much later.
_PAUSE_MS: Final = 10


class KeptOutput:
    """The output goes to the log at `path` alone. `output` and `error` are for the process."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.output = os.open(path, flags, _MODE)
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
        # Threads that are started here get no signal: only the main thread can handle one.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            for channel in self._channels:
                self._start(channel, loop)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _start(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        ended: asyncio.Future[None] = loop.create_future()
        self._ended.append(ended)

        def settle() -> None:
            if not ended.done():
                ended.set_result(None)

        def on_end() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle)

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
