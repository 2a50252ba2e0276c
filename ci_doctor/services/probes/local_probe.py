# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: the probes that ask nobody over a network, `log`, `file` and `exec`."""

import asyncio
import errno
import os
import select
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.errors import UsageError
from ci_doctor.services.probes.log_search import GrowingLog
from ci_doctor.services.probes.ready import ReadinessProbe
from ci_doctor.system import clock
from ci_doctor.system.files.inotify import FileWatch
from ci_doctor.system.processes.process import describe_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_doctor.system.processes.process import Child

# A change is told at once; this is for what the kernel cannot tell (a network file system, say).
_LONGEST_REST_S = 0.5
_LONGEST_PAUSE_S = 0.05
_LONGEST_EXEC_PAUSE_S = 1.0
_OUTPUT_BYTES = 4096
_LONGEST_SHOWN = 160
_KILL_S = 0.2
_CANNOT_EVER_RUN = frozenset(
    {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR}
)


class WatchedFile:
    """Rests until a file has changed."""

    def __init__(self, path: Path) -> None:
        self._changed = asyncio.Event()
        self._watch = FileWatch(path, self._changed.set)

    async def rest(self, limit_s: float) -> None:
        """Return at the next change."""
        try:
            async with asyncio.timeout(min(limit_s, _LONGEST_REST_S)):
                await self._changed.wait()
        except TimeoutError:
            pass

    def heard(self) -> None:
        """What changes from now on counts."""
        self._changed.clear()

    def close(self) -> None:
        """Watch no more."""
        self._watch.close()


class LogAsker(WatchedFile):
    """Holds once the log has matched, and from then on."""

    def __init__(self, probe: ReadinessProbe, log: Path | None) -> None:
        if log is None:
            raise UsageError(
                f"ready: {probe.describe()} needs a log to look in", hint="name it with --log FILE"
            )
        super().__init__(log)
        self._path = log
        self._probe = probe
        self._log = GrowingLog(log, probe.pattern)

    async def ask(self, limit_s: float) -> str | None:
        """None once the log has matched, else its last line."""
        deadline = clock.now() + limit_s
        self.heard()
        while not self._log.search.matched and self._log.read_on():
            if clock.now() > deadline:
                self._changed.set()  # there is more to read, and nobody will tell
                break
            await asyncio.sleep(0)  # a long log must not hold up the news of a death
        if self._log.search.matched:
            return None
        if self._log.problem:
            return f"cannot read {self._path}: {self._log.problem}"
        last = self._log.search.last_line
        said = f"its last line is: {_cut(last)}" if last else "nothing was written yet"
        return f"no line of {self._path} matches /{self._probe.pattern}/; {said}"


class FileAsker(WatchedFile):
    """Holds while the file exists."""

    def __init__(self, probe: ReadinessProbe) -> None:
        self._path = probe.file or Path()
        super().__init__(self._path)

    async def ask(self, limit_s: float) -> str | None:  # noqa: ARG002 - takes no time
        """None where there is such a file."""
        self.heard()
        try:
            os.stat(self._path)  # noqa: PTH116 - not a question of yes and no
        except OSError as error:
            return f"{self._path}: {(error.strerror or 'cannot be read').lower()}"
        return None


class ExecAsker:
    """Holds when the command exits with 0. Each run is killed when its time is over."""

    def __init__(
        self, probe: ReadinessProbe, spawn: "Callable[[Sequence[str], int], Child] | None"
    ) -> None:
        if spawn is None:
            raise UsageError(
                f"ready: {probe.describe()} cannot be run here", hint="use http, tcp, log or file"
            )
        self._words = probe.words
        self._spawn = spawn
        self._took_s = 0.0

    async def ask(self, limit_s: float) -> str | None:
        """None where a run ends with 0, else how it ended and the last line that it wrote."""
        began = clock.now()
        with os.fdopen(os.memfd_create("output"), "rb") as output:
            try:
                child = self._spawn(self._words, output.fileno())
            except OSError as error:
                return self._cannot_run(error)
            try:
                async with asyncio.timeout(limit_s):
                    await _ended(child)
            except TimeoutError:
                return (
                    f"{self._words[0]} did not end within {limit_s:.3g} s{_said(output.fileno())}"
                )
            finally:
                code = _reap(child)
                self._took_s = clock.now() - began
            return (
                None
                if code == 0
                else f"{self._words[0]} ended with {_exit(code)}{_said(output.fileno())}"
            )

    async def rest(self, limit_s: float) -> None:
        """As long as the run took, so that at most half the time goes into asking; up to 1 s."""
        pause = max(_LONGEST_PAUSE_S, min(self._took_s, _LONGEST_EXEC_PAUSE_S))
        await asyncio.sleep(min(pause, limit_s))

    def close(self) -> None:
        """Nothing outlives a run."""

    def _cannot_run(self, error: OSError) -> str:
        message = f"cannot run {self._words[0]}: {error.strerror}"
        if error.errno in _CANNOT_EVER_RUN:
            raise UsageError(
                f"ready: {message}", hint="check the path and its x bit; no shell runs it"
            ) from error
        return message


async def _ended(child: "Child") -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(child.pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(child.pidfd)


def _reap(child: "Child") -> int | None:
    """How it ended; it is killed first where it has not. None where even that takes too long."""
    try:
        poll = select.poll()
        poll.register(child.pidfd, select.POLLIN)
        if not poll.poll(0):
            signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
            if not poll.poll(_KILL_S * 1000):
                return None
        return child.wait()
    except ProcessLookupError:
        return child.wait()
    finally:
        child.close()


def _exit(code: int | None) -> str:
    return "an unknown exit code" if code is None else describe_exit(code)


def _said(output: int) -> str:
    """The last line of what it wrote."""
    size = os.fstat(output).st_size
    text = os.pread(output, _OUTPUT_BYTES, max(0, size - _OUTPUT_BYTES)).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {_cut(lines[-1])}" if lines else ""


def _cut(text: str) -> str:
    plain = "".join(each if each.isprintable() else " " for each in text)
    return plain if len(plain) <= _LONGEST_SHOWN else plain[:_LONGEST_SHOWN] + "…"
