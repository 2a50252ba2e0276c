# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a command in which every Python records its imports, reads the traces."""

import asyncio
import contextlib
import signal as signals
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.imports.trace import RecordedRun, read_traces
from ci_doctor.preload.injection import injected
from ci_doctor.preload.race import self_replacement_race
from ci_doctor.system import clock
from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes.interruption import Interruption, end_awaited, hand_on
from ci_doctor.system.processes.process import Child, signal_name
from ci_doctor.system.processes.tree import OwnTree

DIRECTORY = "CI_DOCTOR_IMPORT_RACE"
HOLD = "CI_DOCTOR_IMPORT_RACE_HOLD"
FOLDER = Path(__file__).parent / "recorder"
# In this order: each file imports those before it.
FILES = (
    FOLDER / "_ci_doctor_trace.py",
    FOLDER / "_ci_doctor_missing.py",
    FOLDER / "_ci_doctor_hold.py",
    FOLDER / "_ci_doctor_order.py",
    FOLDER / "_ci_doctor_unfollowed.py",
    FOLDER / "_ci_doctor_imports.py",
)


def recording(
    environ: Mapping[str, str], directory: Path, hold: str | None = None
) -> dict[str, str]:
    """A copy of `environ` in which every Python writes the trace of its imports into `directory`.

    hold: the delay that each of them makes, in the form of `Hold.text()`.
    """
    environment = dict(environ)
    # ci-doctor itself may run under a recorder that makes a delay.
    environment.pop(HOLD, None)
    variables = {DIRECTORY: str(directory)}
    if hold:
        variables[HOLD] = hold
    return injected(environment, FILES, **variables)


# How long processes of an ended command may take to end by themselves. Helpers of multiprocessing
# end a moment after it, and some of them ignore signals until then.
_HELPERS_S = 2.0
_GRACE_S = 4.0
_KILL_S = 2.0
# After a signal to ci-doctor.
_AFTER_CTRL_C_S = 2.0
_AFTER_SIGNAL_S = 1.0
_POLL_S = 0.02


class Streams(Struct, frozen=True, kw_only=True):
    """File descriptors that the command gets as stdin, stdout and stderr."""

    input: int = 0
    output: int = 1
    error: int = 2


class RecordingPlan(Struct, frozen=True, kw_only=True):
    """What is run, and how.

    timeout_s: ends a command that does not end by itself. hold: the delay that its Python processes
    make, in the form of `Hold.text()`; empty for none.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str]
    hold: str = ""
    timeout_s: float | None = None
    streams: Streams = Streams()


def record(plan: RecordingPlan, directory: Path, interruption: Interruption) -> RecordedRun:
    """Run the command in the foreground, with its traces in the empty folder `directory`.

    No process is left after it. `interruption` must be handling signals: the first one stops the
    run in order, a second one at once. Raises OSError if the command cannot be run, InfraError as
    `Guardian.start` does.
    """
    run = _ForegroundRun(plan, recording(plan.environ, directory.absolute(), plan.hold))
    with asyncio.Runner() as runner:
        runner.run(run.to_the_end(interruption))
    processes, unreadable = read_traces(directory)
    exit_code = None
    signal = None
    if run.returncode is not None and run.returncode >= 0:
        exit_code = run.returncode
    elif run.returncode is not None:
        signal = signal_name(-run.returncode)
    return RecordedRun(
        processes=processes,
        exit_code=exit_code,
        signal=signal,
        duration_s=run.duration_s,
        unreadable=unreadable,
        outlived=run.outlived,
        timed_out=run.timed_out,
        received=run.received,
    )


class _ForegroundRun:
    """One run of a command, from its start until no process of it is left."""

    def __init__(self, plan: RecordingPlan, environment: Mapping[str, str]) -> None:
        self.plan = plan
        self.environment = environment
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
                self.plan.command,
                environment=self.environment,
                directory=Path.cwd(),
                input=self.plan.streams.input,
                output=self.plan.streams.output,
                error=self.plan.streams.error,
                foreground=True,
            )
            try:
                await self._watch(child, tree, interruption)
            finally:
                # After a second signal nobody waits for helpers.
                tree.kill(_KILL_S, at_once=interruption.is_repeated)
                self.returncode = child.wait()
                child.close()
        finally:
            guardian.close()

    async def _watch(self, child: Child, tree: OwnTree, interruption: Interruption) -> None:
        try:
            with end_awaited(child.pidfd) as ended, interruption.watch():
                try:
                    await self._to_its_end(child, tree, ended)
                except asyncio.CancelledError:
                    if interruption.received is None:
                        raise
                    self.received = interruption.received
                    # Within `watch`: a second signal must be able to cancel the stop.
                    await _stop(child, tree, ended, interruption.received)
        finally:
            self.duration_s = self.duration_s or clock.now() - child.started_at

    async def _to_its_end(self, child: Child, tree: OwnTree, ended: "asyncio.Future[None]") -> None:
        await asyncio.wait({ended}, timeout=self.plan.timeout_s)
        self.duration_s = clock.now() - child.started_at
        self.timed_out = not ended.done()
        if not self.timed_out:
            self.outlived = await _outlived(tree)
        if self.timed_out or self.outlived:
            await tree.terminate(_GRACE_S)


async def _stop(
    child: Child, tree: OwnTree, ended: "asyncio.Future[None]", received: signals.Signals
) -> None:
    """Hand the signal on; a second one cancels this, and the caller kills what is left."""
    with contextlib.suppress(asyncio.CancelledError):
        await hand_on(
            received, child.pidfd, ended, limit_s=_AFTER_SIGNAL_S, ctrl_c_s=_AFTER_CTRL_C_S
        )
        await tree.terminate(_GRACE_S)


async def _outlived(tree: OwnTree) -> tuple[str, ...]:
    """The names of the processes that are alive `_HELPERS_S` after the end of the command."""
    deadline = clock.now() + _HELPERS_S
    living = tree.living(thorough=False)
    while living and clock.now() < deadline:
        await asyncio.sleep(_POLL_S)
        living = tree.living(thorough=False)
    return tuple(kin.name for kin in living)


# Each check starts the interpreter and takes 0.1 s; a job has one or two of them.
_CHECKED = 8


def check_interpreters(recorded: RecordedRun) -> dict[str, bool | None]:
    """Whether each recorded interpreter is exposed to the race of self-replacing modules.

    None if it cannot be checked.
    """
    executables: dict[str, None] = {}
    for process in recorded.processes:
        # A program that embeds Python names itself as executable. Our arguments would mean
        # something else to it.
        if Path(process.executable).name.startswith("python"):
            executables[process.executable] = None
    exposures = {}
    for executable in list(executables)[:_CHECKED]:
        exposures[executable] = _exposed(Path(executable))
    return exposures


def _exposed(python: Path) -> bool | None:
    try:
        return self_replacement_race(python)
    except (UsageError, InfraError):
        return None
