# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a command in which every Python records its imports, and reads what they wrote."""

import asyncio
import os
import signal as signals
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import InfraError
from ci_doctor.imports.confirm.delays import Hold
from ci_doctor.imports.record.recording import recording
from ci_doctor.imports.record.trace import RecordedProcess, read_trace
from ci_doctor.system import clock
from ci_doctor.system.guardian.client import Guardian
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.processes.process import Child, signal_name
from ci_doctor.system.processes.tree import OwnTree

# What a command has to end by itself: helpers of multiprocessing end a moment after it, and some ignore signals until then.
_HELPERS_S = 2.0
_GRACE_S = 4.0
_KILL_S = 2.0
# After a signal to ourselves: the same one may have gone to our whole process group, and then it is not sent again.
_HEARD_S = 0.1
_AFTER_CTRL_C_S = 2.0
_LAST_S = 1.0
_LOOK_S = 0.02


class Streams(Struct, frozen=True, kw_only=True):
    """File descriptors that the command gets as stdin, stdout and stderr."""

    input: int = 0
    output: int = 1
    error: int = 2


class RecordedRun(Struct, frozen=True, kw_only=True):
    """A run that has ended, and what its Python processes told, the first one first.

    `exit_code` is None where `signal` (a name) ended it, both are None where nobody can say. `unreadable` says which traces
    cannot be read and why, `outlived` those of processes that lived on when the command had ended and were stopped.
    `timed_out` says that the time was up, `received` which signal to ourselves ended it.
    """

    processes: tuple[RecordedProcess, ...]
    exit_code: int | None
    signal: str | None
    duration_s: float
    unreadable: tuple[str, ...] = ()
    outlived: tuple[str, ...] = ()
    timed_out: bool = False
    received: signals.Signals | None = None


def record(  # noqa: PLR0913 - what a run has
    command: Sequence[str],
    directory: Path,
    *,
    environ: Mapping[str, str],
    hold: Hold | None = None,
    timeout_s: float | None = None,
    streams: Streams | None = None,
    interruption: Interruption | None = None,
) -> RecordedRun:
    """Run `command` here, in the foreground, with its traces in the empty folder `directory`; no process is left after it.

    `timeout_s` ends one that never ends by itself. `interruption` is handling signals: the first stops the run in order, a
    second at once. Raises OSError where the command cannot be run, InfraError as `Guardian.start` does.
    """
    environment = recording(
        environ, directory.absolute(), hold.text() if hold is not None else None
    )
    run = _ForegroundRun(tuple(command), environment, streams or Streams(), timeout_s)
    with asyncio.Runner() as runner:
        runner.run(run.to_the_end(interruption or Interruption()))
    processes, unreadable = read_traces(directory)
    returncode = run.returncode
    return RecordedRun(
        processes=processes,
        exit_code=returncode if returncode is not None and returncode >= 0 else None,
        signal=signal_name(-returncode) if returncode is not None and returncode < 0 else None,
        duration_s=run.duration_s,
        unreadable=unreadable,
        outlived=run.outlived,
        timed_out=run.timed_out,
        received=run.received,
    )


def read_traces(directory: Path) -> tuple[tuple[RecordedProcess, ...], tuple[str, ...]]:
    """The processes that wrote traces into `directory`, in the order of their starts, and why others cannot be read.

    A process that was ended before its first line was whole had imported nothing yet, and is in neither.
    """
    found, unreadable = [], []
    for path in sorted(directory.glob("*.trace")):
        try:
            process = read_trace(path.read_text(encoding="ascii", errors="replace"))
        except (InfraError, OSError) as error:
            unreadable.append(f"{path.name}: {error}")
        else:
            found += [process] if process is not None else []
    return tuple(sorted(found, key=lambda process: process.started_ns)), tuple(unreadable)


class _ForegroundRun:
    """One run under way."""

    def __init__(
        self,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        streams: Streams,
        timeout_s: float | None,
    ) -> None:
        self.command = command
        self.environment = environment
        self.streams = streams
        self.timeout_s = timeout_s
        self.returncode: int | None = None
        self.duration_s = 0.0
        self.outlived: tuple[str, ...] = ()
        self.timed_out = False
        self.received: signals.Signals | None = None

    async def to_the_end(self, interruption: Interruption) -> None:
        guardian = Guardian.start()
        try:
            tree = OwnTree(guardian)
            child = guardian.spawn(
                self.command,
                environment=self.environment,
                directory=Path.cwd(),
                input=self.streams.input,
                output=self.streams.output,
                error=self.streams.error,
                foreground=True,
            )
            try:
                await self._watch(child, tree, interruption)
            finally:
                tree.kill(_KILL_S)
                self.returncode = child.wait()
                child.close()
        finally:
            guardian.close()

    async def _watch(self, child: Child, tree: OwnTree, interruption: Interruption) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(child.pidfd, _settle, ended)
        try:
            with interruption.watch(task):
                try:
                    await self._to_its_end(child, tree, ended)
                except asyncio.CancelledError:
                    if interruption.received is None:
                        raise
                    self.received = interruption.received
                    await self._stop(child, tree, ended, interruption.received)
        finally:
            loop.remove_reader(child.pidfd)
            self.duration_s = self.duration_s or clock.now() - child.started_at

    async def _to_its_end(self, child: Child, tree: OwnTree, ended: "asyncio.Future[None]") -> None:
        await asyncio.wait({ended}, timeout=self.timeout_s)
        self.duration_s = clock.now() - child.started_at
        self.timed_out = not ended.done()
        if not self.timed_out:
            self.outlived = await _outlived(tree)
        if self.timed_out or self.outlived:
            await tree.terminate(_GRACE_S)

    async def _stop(
        self, child: Child, tree: OwnTree, ended: "asyncio.Future[None]", number: signals.Signals
    ) -> None:
        """End as we do; a second signal ends this, and what is left is killed."""
        by_terminal = number is signals.SIGINT and _in_foreground()
        try:
            await asyncio.wait({ended}, timeout=_AFTER_CTRL_C_S if by_terminal else _HEARD_S)
            if not ended.done():
                signals.pidfd_send_signal(
                    child.pidfd, signals.SIGINT if number is signals.SIGINT else signals.SIGTERM
                )
                await asyncio.wait({ended}, timeout=_LAST_S)
            await tree.terminate(_GRACE_S)
        except (asyncio.CancelledError, ProcessLookupError):
            pass


def _settle(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)


async def _outlived(tree: OwnTree) -> tuple[str, ...]:
    """The names of what still lives a moment after the command's end."""
    deadline = clock.now() + _HELPERS_S
    while (living := tree.living(thorough=False)) and clock.now() < deadline:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(_LOOK_S)
    return tuple(kin.name for kin in living)


def _in_foreground() -> bool:
    """Whether Ctrl-C on our terminal reaches our whole process group, and so the command too."""
    try:
        return any(
            os.isatty(number) and os.tcgetpgrp(number) == os.getpgrp() for number in (0, 1, 2)
        )
    except OSError:
        return False
