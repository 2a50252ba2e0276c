# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: the probes without a network, `log`, `file` and `exec`."""

import asyncio
import errno
import os
import select
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from ci_doctor.errors import UsageError
from ci_doctor.services.probes.answers import ProbeAnswer, Telling
from ci_doctor.services.probes.log_search import GrowingLog
from ci_doctor.services.probes.ready import ReadinessProbe
from ci_doctor.system import clock
from ci_doctor.system.files.inotify import FileWatch
from ci_doctor.system.processes.process import describe_exit
from ci_doctor.system.secrets.private_keys import shortened_words, without_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_doctor.system.processes.process import Child

# The kernel reports a change at once; this is for what it cannot report, as on a network file
# system.
_LONGEST_REST_S = 0.5
_LONGEST_PAUSE_S = 0.05
_LONGEST_EXEC_PAUSE_S = 1.0
_OUTPUT_BYTES = 16 * 1024
_LONGEST_SHOWN = 160
# After SIGKILL; a command that waits inside the kernel must not hold up the news of a death.
_KILL_S = 0.2
# Errors of execve(2) that another attempt will not mend. Others pass, such as too many processes.
_CANNOT_EVER_RUN = frozenset(
    {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR}
)


class WatchedFile:
    """Rests until a file has changed."""

    def __init__(self, path: Path) -> None:
        self._changed = asyncio.Event()
        self._watch = FileWatch(path, self._changed.set)

    async def rest(self, limit_s: float) -> None:
        """Return at the next change, after `limit_s` seconds at the latest."""
        try:
            async with asyncio.timeout(min(limit_s, _LONGEST_REST_S)):
                await self._changed.wait()
        except TimeoutError:
            pass

    def begin(self) -> None:
        """From now on a change counts. Call it before the file is read, so that none is missed."""
        self._changed.clear()

    def close(self) -> None:
        """Watch no more."""
        self._watch.close()


class LogProber(WatchedFile):
    """Holds once the log has matched, and from then on."""

    def __init__(self, probe: ReadinessProbe, log: Path | None) -> None:
        if log is None:
            message = f"ready: {probe.describe()} needs a log to look in"
            raise UsageError(message, hint="name it with --log FILE")
        super().__init__(log)
        self._path = log
        self._probe = probe
        self._log = GrowingLog(log, probe.pattern)

    async def ask(self, limit_s: float) -> ProbeAnswer | None:
        """None once the log has matched, else its last line."""
        deadline = clock.now() + limit_s
        self.begin()
        while not self._log.search.matched and self._log.read_on():
            if clock.now() > deadline:
                # There is more to read, and no change of the file will report it.
                self._changed.set()
                break
            # A long log must not delay the news of a death.
            await asyncio.sleep(0)
        if self._log.search.matched:
            return None
        if self._log.problem:
            text = f"cannot read {self._path}: {self._log.problem}"
            return ProbeAnswer(text=text, telling=Telling.ABSENT)
        last = self._log.search.last_line
        state = f"its last line is: {_cut(last)}" if last else "nothing was written yet"
        text = f"no line of {self._path} matches /{self._probe.pattern}/; {state}"
        return ProbeAnswer(text=text)


class FileProber(WatchedFile):
    """Holds while the file exists."""

    def __init__(self, probe: ReadinessProbe) -> None:
        self._path = probe.file or Path()
        super().__init__(self._path)

    async def ask(self, limit_s: float) -> ProbeAnswer | None:  # noqa: ARG002 - takes no time
        """None if there is such a file."""
        self.begin()
        try:
            os.stat(self._path)  # noqa: PTH116 - exists() would hide why it cannot be read
        except OSError as error:
            text = f"{self._path}: {(error.strerror or 'cannot be read').lower()}"
            return ProbeAnswer(text=text, telling=Telling.ABSENT)
        return None


class ExecProber:
    """Holds when the command exits with 0. Each run is killed when its time is over."""

    def __init__(
        self, probe: ReadinessProbe, spawn: "Callable[[Sequence[str], int], Child] | None"
    ) -> None:
        if spawn is None:
            message = f"ready: {probe.describe()} cannot be run here"
            raise UsageError(message, hint="use http, tcp, log or file")
        self._words = probe.words
        self._attempt_s = probe.attempt_s
        self._spawn = spawn
        self._took_s = 0.0

    async def ask(self, limit_s: float) -> ProbeAnswer | None:
        """None if a run ends with 0, else how it ended and the last line that it wrote."""
        # A file and no pipe: a command that writes much never blocks.
        with os.fdopen(os.memfd_create("output"), "rb") as output:
            try:
                child = self._spawn(self._words, output.fileno())
            except OSError as error:
                return self._cannot_run(error)
            problem = await self._run(child, limit_s)
            if problem is None:
                return None
            text = f"{self._words[0]} {problem.text}{_last_line(output.fileno())}"
            return structs.replace(problem, text=text)

    async def rest(self, limit_s: float) -> None:
        """As long as the run took, so that at most half the time goes into probing; up to 1 s."""
        # A command may be an interpreter that costs as much CPU as the start of the service.
        pause_s = max(_LONGEST_PAUSE_S, min(self._took_s, _LONGEST_EXEC_PAUSE_S))
        await asyncio.sleep(min(pause_s, limit_s))

    def close(self) -> None:
        """Nothing outlives a run."""

    async def _run(self, child: "Child", limit_s: float) -> ProbeAnswer | None:
        """How the run failed; None if it ended with 0."""
        began = clock.now()
        in_time = False
        try:
            async with asyncio.timeout(limit_s):
                await _end_of(child)
            in_time = True
        except TimeoutError:
            pass
        finally:
            code = _reap(child)
            self._took_s = clock.now() - began
        if not in_time:
            return ProbeAnswer(
                text=f"did not end within {limit_s:.3g} s",
                telling=Telling.SILENT,
                cut=limit_s < self._attempt_s,
            )
        if code == 0:
            return None
        end = "an unknown exit code" if code is None else describe_exit(code)
        return ProbeAnswer(text=f"ended with {end}")

    def _cannot_run(self, error: OSError) -> ProbeAnswer:
        message = f"cannot run {self._words[0]}: {error.strerror}"
        if error.errno in _CANNOT_EVER_RUN:
            hint = "check the path and its x bit; no shell runs it"
            raise UsageError(f"ready: {message}", hint=hint) from error
        return ProbeAnswer(text=message, telling=Telling.ABSENT)


async def _end_of(child: "Child") -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(child.pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        # A pidfd stays readable after the end: the loop would call this for ever.
        loop.remove_reader(child.pidfd)


def _reap(child: "Child") -> int | None:
    """How it ended; it is killed first if it has not. None if even that takes too long."""
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


def _last_line(output: int) -> str:
    """The last line that was written to this file, after a colon; nothing if there is none."""
    size = os.fstat(output).st_size
    end = os.pread(output, _OUTPUT_BYTES, max(0, size - _OUTPUT_BYTES))
    end = without_keys(end)
    for line in reversed(end.decode(errors="replace").splitlines()):
        if line.strip():
            return f": {_cut(line.strip())}"
    return ""


def _cut(text: str) -> str:
    plain = "".join(each if each.isprintable() else " " for each in text)
    return shortened_words(plain, _LONGEST_SHOWN)
