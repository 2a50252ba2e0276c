# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a command in which every Python records its imports, reads the traces."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.imports.trace import RecordedRun, read_traces
from ci_doctor.preload.injection import injected
from ci_doctor.preload.trial import self_replacement_race
from ci_doctor.system import clock
from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes.interruption import Interruption, end_awaited, hand_on
from ci_doctor.system.processes.process import Child, signal_name
from ci_doctor.system.processes.tree import OwnTree

if TYPE_CHECKING:
    from signal import Signals

DIRECTORY = "CI_DOCTOR_IMPORT_RACE"
HOLD = "CI_DOCTOR_IMPORT_RACE_HOLD"
FOLDER = Path(__file__).parent / "recorder"
# In this order: each file imports those before it.
FILES = (
    FOLDER / "_ci_doctor_trace.py",
    FOLDER / "_ci_doctor_missing.py",
    FOLDER / "_ci_doctor_hold.py",
    FOLDER / "_ci_doctor_order.py",
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
    code = run.returncode
    return RecordedRun(
        processes=processes,
        exit_code=code if code is not None and code >= 0 else None,
        signal=signal_name(-code) if code is not None and code < 0 else None,
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
        self.received: Signals | None = None

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
                self.duration_s = self.duration_s or clock.now() - child.started_at
                # After a second signal nobody waits for helpers.
                tree.kill(_KILL_S, at_once=interruption.is_repeated)
                self.returncode = child.wait()
                child.close()
        finally:
            guardian.close()

    async def _watch(self, child: Child, tree: OwnTree, interruption: Interruption) -> None:
        with end_awaited(child.pidfd) as ended, interruption.watch():
            try:
                await self._wait(child, tree, ended)
            except asyncio.CancelledError:
                if interruption.received is None:
                    raise
                self.received = interruption.received
                limits_s = {"limit_s": _AFTER_SIGNAL_S, "ctrl_c_s": _AFTER_CTRL_C_S}
                # Within `watch`: a second signal must be able to cancel the stop, and then the
                # caller kills what is left.
                with contextlib.suppress(asyncio.CancelledError):
                    await hand_on(self.received, child.pidfd, ended, **limits_s)
                    await tree.terminate(_GRACE_S)

    async def _wait(self, child: Child, tree: OwnTree, ended: "asyncio.Future[None]") -> None:
        await asyncio.wait({ended}, timeout=self.plan.timeout_s)
        self.duration_s = clock.now() - child.started_at
        self.timed_out = not ended.done()
        deadline = clock.now() + _HELPERS_S
        living = () if self.timed_out else tree.living(thorough=False)
        while living and clock.now() < deadline:
            await asyncio.sleep(_POLL_S)
            living = tree.living(thorough=False)
        self.outlived = tuple(kin.name for kin in living)
        if self.timed_out or self.outlived:
            await tree.terminate(_GRACE_S)


# Each check starts the interpreter and takes 0.1 s; a job has one or two of them.
_CHECKED = 8


def check_interpreters(recorded: RecordedRun) -> dict[str, bool | None]:
    """Whether each recorded interpreter is exposed to the race of self-replacing modules.

    None if it cannot be checked.
    """
    executables = dict.fromkeys(process.executable for process in recorded.processes)
    # A program that embeds Python names itself as executable. Our arguments would mean something
    # else to it.
    pythons = [each for each in executables if Path(each).name.startswith("python")]
    exposures: dict[str, bool | None] = {}
    for python in pythons[:_CHECKED]:
        try:
            exposures[python] = self_replacement_race(Path(python))
        except (UsageError, InfraError):
            exposures[python] = None
    return exposures
