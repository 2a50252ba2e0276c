# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: runs pytest to its end, ends tests that hang, reads what it recorded. And where it writes."""

import asyncio
import contextlib
import functools
import os
import re
import secrets
import shutil
import signal
import signal as signals
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError
from ci_doctor.pytest_runs.attempt import PytestEnd, PytestSession, session_of
from ci_doctor.pytest_runs.plan import PytestPlan
from ci_doctor.pytest_runs.records import (
    Running,
    RunRecord,
    StuckCollection,
    loaded_file,
    overdue_at,
    read_records,
)
from ci_doctor.system import clock
from ci_doctor.system.files.access import lasting_directory, make_directory
from ci_doctor.system.guardian import Guardian
from ci_doctor.system.processes.interruption import (
    Interruption,
    end_awaited,
    hand_on,
    in_foreground,
)
from ci_doctor.system.processes.process import Child
from ci_doctor.system.processes.tree import OwnTree
from ci_doctor.system.processes.tree_stop import send_signal, wait_for_all
from ci_doctor.system.relay_output import (
    STDERR,
    Channel,
    CommandLog,
    Pump,
    open_channel_to,
    open_channels,
)
from ci_doctor.system.secrets.private_keys import without_keys

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


# --- ends the process of a test or a collection that takes too long, also if it hangs in C ---
# The recorder says which test runs. A timer of the kernel wakes us when the first one would be overdue.

# As in the recorder, which writes the stacks of all threads then.
_STACKS_SIGNAL: Final = signal.SIGPWR
_STACKS_S: Final = 0.25  # for the stacks to be written
_DEATH_S: Final = 5.0
_KILL_S: Final = 2.0
_MOST_STACKS: Final = 8192  # characters
_THREAD: Final = re.compile(r"^(?:Current thread|Thread) ", re.MULTILINE)


class HangingTests:
    """Ends tests that run for `limit_s` seconds, by the records in the file `record`.

    stacks: the begin of the paths where processes write what their threads do.

    A file that loads for `collection_s` seconds ends the run: no test can run without it.

    ended: by node id, what the main thread was doing. stuck: the file.
    """

    def __init__(
        self,
        record: Path,
        stacks: str,
        limit_s: float,
        tree: OwnTree,
        *,
        collection_s: float,
    ) -> None:
        self.ended: dict[str, str] = {}
        self.stuck: StuckCollection | None = None
        self._record = record
        self._stacks = stacks
        self._limit_s = limit_s
        self._collection_s = collection_s
        self._tree = tree
        self._records: list[RunRecord] = []
        self._offset = 0
        self._dead: set[int] = set()

    async def end_them_until(self, ended: "asyncio.Future[None]") -> None:
        """Watch until the run has `ended`."""
        while not ended.done():
            overdue, next_look = self._look()
            for each in overdue:
                if each.pid not in self._dead:
                    await self._end(each)
            await asyncio.wait({ended}, timeout=max(0.0, next_look - clock.now()))

    def _look(self) -> tuple[list[Running], float]:
        """What is overdue by what was written up to now, and when to look again."""
        with contextlib.suppress(FileNotFoundError), self._record.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._offset += len(whole)
            self._records += read_records(whole).records
        return overdue_at(
            clock.now(), self._records, self._limit_s, collection_s=self._collection_s
        )

    async def _end(self, each: Running) -> None:
        """Have the stacks written, and kill the process; with a file that loads, each one of the run."""
        self._dead.add(each.pid)
        # Never one that is not of this run.
        process = next((kin for kin in self._tree.living() if kin.pid == each.pid), None)
        if process is None:
            return
        # The file is there once the process handles the signal, which would end it before.
        if self._stack(each.pid) is not None:
            send_signal(process, _STACKS_SIGNAL)
            await asyncio.sleep(_STACKS_S)
        # It may have come to its end meanwhile.
        if each not in self._look()[0]:
            self._dead.discard(each.pid)
            return
        stack = self._stack(each.pid) or ""
        if each.is_test:
            self.ended[each.name] = stack
            send_signal(process, signal.SIGKILL)
            await wait_for_all([process], _DEATH_S)
        else:
            name = loaded_file(each, stack)
            self.stuck = StuckCollection(name=name, limit_s=each.limit_s, stack=stack)
            self._tree.kill(_KILL_S)

    def _stack(self, pid: int) -> str | None:
        """What the main thread of a process was doing; None if the process cannot write it."""
        try:
            text = Path(f"{self._stacks}.{pid}").read_text(errors="replace")
        except OSError:
            return None
        return main_thread(text)[:_MOST_STACKS]


def main_thread(text: str) -> str:
    """The stack of the main thread, which faulthandler writes last, the innermost call first. Pure."""
    starts = [match.start() for match in _THREAD.finditer(text)]
    return text[starts[-1] :] if starts else text


# --- runs pytest to its end, ends tests that hang, reads what it recorded ---

# How long processes of an ended run may take to end by themselves.
_LEFT_OVER_S: Final = 2.0
_LAST_BYTES: Final = 8192
_LAST_LINES: Final = 8
_MOST_KEPT: Final = 200  # logs that are open at once
_HASH_SEEDS: Final = 1 << 32  # PYTHONHASHSEED is below
_GRACE_S: Final = 4.0
_LAST_WORDS_S: Final = 2.0
# pytest prints its summary after Ctrl-C, and tears fixtures down.
_AFTER_SIGNAL_S: Final = 10.0


class PytestRunner:
    """Runs pytest, one process after the other, each below one guardian.

    scratch: a folder for records. logs: an existing folder for what the runs write; of each run the
    file `<number>-<kind>.log`. on_stderr: what is shown goes to stderr. `interruption` must be
    handling signals; after the first one no further run is started.
    """

    def __init__(
        self, scratch: Path, logs: Path, interruption: Interruption, *, on_stderr: bool = False
    ) -> None:
        self.scratch = scratch
        self._logs = logs
        self._interruption = interruption
        self._on_stderr = on_stderr
        self._count = 0
        self._kept: deque[KeptLog] = deque()
        self._guardian = Guardian.start()

    def close(self) -> None:
        """End the guardian; nothing runs below it any more. What the runs wrote is in its place."""
        self._guardian.close()
        while self._kept:
            self._kept.popleft().close()

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal to ci-doctor has arrived."""
        return self._interruption.received is not None

    @property
    def interrupted_by(self) -> str | None:
        """The name of the signal to ci-doctor that has arrived."""
        received = self._interruption.received
        return None if received is None else received.name

    def run(
        self, plan: PytestPlan, *, is_shown: bool = False, logs: Path | None = None
    ) -> PytestSession:
        """Run pytest to its end; no process is left after it.

        is_shown: its output goes to our own streams too. logs: another folder for its log. Raises OSError if it cannot be started,
        InfraError as `Guardian.start` does.
        """
        self._count += 1
        if plan.hash_seed is None:
            # Drawn by us instead of by the interpreter, so that a failure can be repeated.
            plan = replace(plan, hash_seed=secrets.randbelow(_HASH_SEEDS))
        with contextlib.ExitStack() as stack:
            stacks = str(self.scratch / f"{self._count}.stacks")
            record, wishes, collected = (
                stack.enter_context(held_file(self.scratch / f"{self._count}.{name}"))
                for name in ("records", "plan", "collected")
            )
            wishes.write(plan.wishes(collected.place, stacks))
            name = f"{self._count}-{plan.kind}.log"
            log = KeptLog(name, logs or self._logs, self.scratch)
            # Held to the end: a later run may remove it again.
            self._kept.append(log)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popleft().close()
            run = _OneRun(plan, self._guardian, record.place, wishes.place, stacks)
            with asyncio.Runner() as runner:
                output: Output = KeptOutput(log.path)
                if is_shown:
                    output = ShownOutput(log.path, on_stderr=self._on_stderr)
                runner.run(run.to_the_end(output, self._interruption))
            log.restore()
            run.end.interrupted = self.interrupted_by
            run.end.log = str(log.path)
            run.end.last_lines = _last_lines(log.path)
            return session_of(
                plan.kind,
                read_records(record.read()),
                run.end,
                collected=_collected(collected.read()),
                chosen=plan.tests,
            )


def _last_lines(log: Path) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LAST_BYTES))
            text = without_keys(file.read()).decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.rstrip().splitlines()[-_LAST_LINES:])


def _collected(content: bytes) -> tuple[str, ...] | None:
    """The first whole line: several workers may have written theirs at the same time."""
    line, end, _ = content.partition(b"\n")
    try:
        return msgspec.json.decode(line, type=decodable(tuple[str, ...])) if end else None
    except msgspec.DecodeError:
        return None


class _OneRun:
    """One process of pytest, from its start until no process of it is left. end: how it ended."""

    def __init__(
        self, plan: PytestPlan, guardian: Guardian, record: str, wishes: str, stacks: str
    ) -> None:
        self.end = PytestEnd(limit_s=plan.timeout_s)
        self._plan = plan
        self._guardian = guardian
        self._record = record
        self._wishes = wishes
        self._stacks = stacks

    async def to_the_end(self, output: Output, interruption: Interruption) -> None:
        tree = OwnTree(self._guardian)
        output.begin()
        try:
            shown = isinstance(output, ShownOutput)
            child = self._guardian.spawn(
                self._plan.command,
                environment=self._plan.environment(self._record, self._wishes),
                directory=self._plan.directory,
                # A person may debug the first run (`--pdb`); nobody answers a rerun.
                input=0 if shown else None,
                output=output.output,
                error=output.error,
                # A test may signal its whole process group. At a terminal it is ours, so that Ctrl-C and
                # `--pdb` work.
                foreground=_is_at_a_terminal(),
            )
            try:
                await self._watch(child, tree, interruption)
            finally:
                # After a second signal nobody waits for helpers.
                tree.kill(_KILL_S, at_once=interruption.is_repeated)
                self.end.returncode = child.wait()
                child.close()
        finally:
            await output.finish(_LAST_WORDS_S)

    async def _watch(self, child: Child, tree: OwnTree, interruption: Interruption) -> None:
        try:
            with end_awaited(child.pidfd) as ended, interruption.watch():
                try:
                    await self._to_its_end(child, tree, ended)
                except asyncio.CancelledError:
                    if interruption.received is None:
                        raise
                    # Within `watch`: a second signal must be able to cancel the stop.
                    await _stop(child, tree, ended, interruption.received)
        finally:
            self.end.duration_s = self.end.duration_s or clock.now() - child.started_at

    async def _to_its_end(self, child: Child, tree: OwnTree, ended: "asyncio.Future[None]") -> None:
        if self._plan.timeout_s is None:
            await asyncio.wait({ended}, timeout=self._plan.limit_s)
        else:
            hanging = HangingTests(
                Path(self._record),
                self._stacks,
                self._plan.timeout_s,
                tree,
                collection_s=max(self._plan.timeout_s, self._plan.least_collection_s),
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._plan.limit_s):
                    await hanging.end_them_until(ended)
            self.end.stuck = hanging.stuck
            self.end.timed_out = hanging.ended
        self.end.duration_s = clock.now() - child.started_at
        if not ended.done():
            self.end.is_cut = True
            await tree.terminate(_GRACE_S)
            return
        living = tree.living(thorough=False)
        if living:
            await wait_for_all(living, _LEFT_OVER_S)
            self.end.left_over = tuple(kin.name for kin in tree.living())
            await tree.terminate(_GRACE_S)


async def _stop(
    child: Child, tree: OwnTree, ended: "asyncio.Future[None]", received: signals.Signals
) -> None:
    """Hand the signal on; a second one cancels this, and the caller kills what is left."""
    with contextlib.suppress(asyncio.CancelledError):
        await hand_on(
            received, child.pidfd, ended, limit_s=_AFTER_SIGNAL_S, ctrl_c_s=_AFTER_SIGNAL_S
        )
        await tree.terminate(_GRACE_S)


@functools.cache
def _is_at_a_terminal() -> bool:
    """Whether a person sits there: a CI's agent gives its jobs a terminal, too."""
    return in_foreground() and not os.environ.get("CI")
