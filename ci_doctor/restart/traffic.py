# SPDX-License-Identifier: Apache-2.0
"""Acts on the network and processes: who asks the services, and the load while one is killed and comes back."""

import asyncio
import contextlib
import hashlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import Canonical
from ci_doctor.load.requests import Request
from ci_doctor.load.sending import LARGEST_ANSWER, Ask, Asking, Reply, Sender, send_all, time_limit
from ci_doctor.model.facts.restart_check import AcknowledgedWrites, Phase
from ci_doctor.model.words import shortened
from ci_doctor.restart.settings import RestartPlan
from ci_doctor.services.busy_timeout import BusyTimeout, all_waits
from ci_doctor.services.running import RunningGroup
from ci_doctor.services.spec import fill, placeholders_for
from ci_doctor.system import clock
from ci_doctor.system.files.access import make_directory
from ci_doctor.system.processes.interruption import end_awaited
from ci_doctor.system.processes.process import Child, describe_exit, has_ended

# Of what a command says, the last line is looked for in so many bytes.
_END = 16 * 1024


def start_command(
    plan: RestartPlan,
    group: RunningGroup,
    key: str,
    words: Sequence[str],
    *,
    streams: tuple[int | None, int, int],
    **placeholders: str,
) -> Child:
    """Start the command that the setting `key` names, in the tree of `group`.

    `streams` are descriptors of its standard input (None: empty), output and error. Raises UsageError if it
    cannot be run.
    """
    # A command before the first start has no port to ask for.
    known = dict(placeholders)
    if group.ports:
        known |= placeholders_for(plan.names[-1], plan.context, group.ports)
    filled = [fill(word, known) for word in words]
    source, output, error = streams
    try:
        return group.launch(
            filled,
            environment=plan.context.environment,
            directory=plan.context.directory,
            output=output,
            error=error,
            input=source,
        )
    except OSError as problem:
        raise UsageError(
            f"{key}: cannot run {filled[0]}: {problem.strerror}",
            hint="name a program on PATH, or one relative to the configuration",
        ) from problem


def sender_of(plan: RestartPlan, group: RunningGroup) -> Asking:
    """What makes the requests of `plan`: HTTP to the answering service, or the command `client`."""
    if plan.client:
        return Clients(plan, group)
    return Sender(
        base_url=group.endpoint.base_url,
        concurrency=plan.settings.concurrency,
        timeout_s=plan.terms.request_timeout_s,
        waits=all_waits(group.living_pids),
    )


class Clients:
    """Runs the command `client` once for each request; `{run}` in it is the request's id.

    Exit code 0 is an answer, and its standard output the text of that. Whoever does not end in time
    is killed with its process group, and hung.
    """

    def __init__(self, plan: RestartPlan, group: RunningGroup) -> None:
        self.concurrency = plan.settings.concurrency
        self._plan = plan
        self._group = group
        self._waits = all_waits(group.living_pids)

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[Ask]:
        """What runs one client. Raises UsageError if the command cannot be run."""
        yield self._run

    async def _run(self, request: Request) -> Reply:
        began = clock.now()
        output, error = os.memfd_create("output"), os.memfd_create("error")
        try:
            child = start_command(
                self._plan,
                self._group,
                "client",
                self._plan.client,
                streams=(None, output, error),
                run=request.id,
            )
            problem, hung = await self._ended(child)
            said = os.pread(output, LARGEST_ANSWER, 0)
            if problem and (last := _last_line(error) or _last_line(output)):
                problem = f"{problem}: {last}"
        finally:
            os.close(output)
            os.close(error)
        return Reply(
            id=request.id,
            sent_at=began,
            ended_at=clock.now(),
            answer=None if problem else _answer(said),
            error=problem,
            hung=hung,
        )

    async def _ended(self, child: Child) -> tuple[str | None, bool]:
        """What is wrong with its end, and whether that did not come in time."""
        limit_s = self._plan.terms.request_timeout_s
        try:
            with end_awaited(child.pidfd) as ended:
                async with time_limit(limit_s, self._waits):
                    await ended
            code = child.wait()
        except TimeoutError:
            return f"the client did not end in {limit_s:g} s", True
        finally:
            if not has_ended(child.pidfd):
                # It leads a group of its own, and nobody has waited for it: the number is still its own.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.close()
        if code == 0:
            return None, False
        end = "in a way that nobody saw" if code is None else describe_exit(code)
        return f"the client ended: {end}", False


def _answer(said: bytes) -> Canonical:
    text = said.decode(errors="replace")
    return Canonical(
        output={"choices": [{"text": text}]},
        digest=hashlib.sha256(said).hexdigest(),
        meta={},
        prompt_facts={},
        empty=not text,
    )


def _last_line(descriptor: int) -> str:
    """The last line that is not empty."""
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, _END, max(0, size - _END)).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return shortened(lines[-1], _LONGEST_LINE) if lines else ""


# --- the load while a service is killed and comes back ---


# A refused client does not try again at once; and thousands of attempts a second would slow down
# the relaunch.
_REST_S = 0.25


async def one_pass(
    sender: Asking, requests: Sequence[Request], keep: Callable[[Reply], None]
) -> float:
    """Send everything once; returns the seconds from the first request to the last reply.

    Raises InfraError as `ask`.
    """
    first = float("inf")
    last = 0.0
    if not requests:
        return 0.0

    def note(reply: Reply) -> None:
        nonlocal first, last
        first = min(first, reply.sent_at)
        last = max(last, reply.ended_at)
        keep(reply)

    await send_all(sender, requests, note)
    return last - first


class Traffic:
    """Sends requests inside `async with`: one whole pass, and after `go_on` again and again.

    `keep` gets each reply with the phase in which its request was sent: set `phase` as it changes.
    Leaving the block drops what is under way; `drain` waits for it first.
    """

    def __init__(
        self,
        sender: Asking,
        requests: Sequence[Request],
        keep: Callable[[Phase, Reply], None],
        *,
        reached_at: int,
    ) -> None:
        self.phase = Phase.KILL
        self.done = 0
        self.began = 0.0
        self._sender = sender
        self._requests = requests
        self._keep = keep
        self._reached_at = reached_at
        self._sent = 0
        self._endless = asyncio.Event()
        self._over = asyncio.Event()
        self._reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.began = clock.now()
        self._task = asyncio.create_task(self._send())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None  # noqa: S101 - __aenter__ made it
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def reached(self) -> None:
        """Until `reached_at` requests are done; with 0, until the first are on their way.

        Raises as `drain`.
        """
        assert self._task is not None  # noqa: S101 - __aenter__ made it
        # Beside the sending itself, which would otherwise fail unnoticed and never get there.
        await asyncio.wait({self._reached, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.result()

    def go_on(self) -> None:
        """From now on begin again at the end of the file."""
        self._endless.set()

    async def drain(self) -> None:
        """Send nothing more, and wait for every reply. Raises InfraError as `ask`."""
        assert self._task is not None  # noqa: S101 - __aenter__ made it
        self._over.set()
        # Wakes those that wait at the end of the file; they then find that it is over.
        self._endless.set()
        await self._task

    async def _send(self) -> None:
        try:
            async with self._sender.asking() as ask, asyncio.TaskGroup() as group:
                for _ in range(self._sender.concurrency):
                    group.create_task(self._one_after_another(ask))
        except ExceptionGroup as errors:
            # All tasks fail for the same reason; one is enough to report.
            raise errors.exceptions[0] from errors

    async def _one_after_another(self, ask: Ask) -> None:
        while True:
            request = await self._next()
            if request is None:
                break
            # Read before the request: it may be answered in the next phase.
            phase = self.phase
            reply = await ask(request)
            self.done += 1
            self._keep(phase, reply)
            self._check_reached()
            if reply.error is not None:
                await self._rest()

    async def _rest(self) -> None:
        # Not a plain sleep: `drain` must not wait for clients that only rest.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), _REST_S)

    async def _next(self) -> Request | None:
        if not self._requests:
            return None
        if self._sent >= len(self._requests):
            await self._endless.wait()
        if self._over.is_set():
            return None
        request = self._requests[self._sent % len(self._requests)]
        self._sent += 1
        self._check_reached()
        return request

    def _check_reached(self) -> None:
        # A kill at 0 done needs requests on their way, or it would hit an idle server.
        if self._reached_at:
            is_reached = self.done >= self._reached_at
        else:
            is_reached = self._sent >= min(self._sender.concurrency, len(self._requests))
        if is_reached and not self._reached.done():
            self._reached.set_result(None)


ACKNOWLEDGED_FILE: Final = "acknowledged.txt"
LOST_FILE: Final = "lost.txt"
LOAD_LOG: Final = "load.log"
VERIFY_LOG: Final = "verify.log"
SETUP_LOG: Final = "setup.log"
# Between two looks at the file and the process; the kill may come as much later than its line.
_PAUSE_S: Final = 0.02
_LOST_KEPT: Final = 5
_LONGEST_LINE: Final = 300
# No clock gives this time to a file.
_NEVER_READ_NS: Final = 1
# After SIGKILL a process is gone at once, unless it waits inside a driver or a file system.
_LAST_LIMIT_S: Final = 2.0


class Writes:
    """The command `load` beside the services, and after the restart the command `verify`.

    A line that the load has printed whole is an acknowledged write. The lines stand in a file of the
    report's directory, which the verifier gets as its standard input and as `{acknowledged}`.
    """

    def __init__(self, plan: RestartPlan, group: RunningGroup) -> None:
        self._plan = plan
        self._group = group
        self._context = plan.context
        self._path = plan.directory / ACKNOWLEDGED_FILE
        self._load: Child | None = None
        self._lines = 0
        self._whole = 0
        self._before_kill = 0
        self._load_ended: str | None = None

    async def reached(self, limit_s: float) -> AcknowledgedWrites | None:
        """Start the load; None once as many writes are acknowledged as are wanted before the kill.

        Otherwise what there is: the load ended before, or took longer than `limit_s`.
        Raises UsageError if the command cannot be run.
        """
        make_directory(self._plan.directory)
        self._load = self._spawn("load", self._plan.load, self._path, LOAD_LOG)
        time_limit = BusyTimeout(limit_s, self._group.living_pids)
        while self._count() < self._plan.terms.acknowledged:
            if has_ended(self._load.pidfd):
                # What it wrote last may have come after the count.
                if self._count() < self._plan.terms.acknowledged:
                    self._load_ended = _ending(self._load)
                    return self._result()
                break
            if time_limit.left_s() <= 0:
                return self._result()
            await asyncio.sleep(_PAUSE_S)
        return None

    def killed(self) -> None:
        """The signal is sent now."""
        self._before_kill = self._count()

    async def verified(self, limit_s: float) -> AcknowledgedWrites:
        """End the load, run the verifier, and return what it says. `limit_s` is for each of them."""
        assert self._load is not None  # noqa: S101 - `reached` made it
        await self._end(self._load, limit_s)
        self._count()
        # A line that its end has cut was never acknowledged whole.
        os.truncate(self._path, self._whole)
        output = self._plan.directory / LOST_FILE
        # Older than its last write, so that a file system with `relatime` too keeps the next read (mount(8)).
        os.utime(self._path, ns=(_NEVER_READ_NS, self._path.stat().st_mtime_ns))
        child = self._spawn("verify", self._plan.verify, output, VERIFY_LOG, stdin=self._path)
        if not await self._has_ended(child, limit_s):
            await self._end(child, _LAST_LIMIT_S)
            return self._result(problem=f"the verifier did not end within {limit_s:g} s")
        returncode = child.wait()
        lines = [line for line in output.read_text(errors="replace").splitlines() if line.strip()]
        # As comm(1), diff(1) and grep(1) end: 0 or 1 is an answer, anything else is an error.
        if returncode not in (0, 1):
            return self._result(problem=f"the verifier ended: {_ending(child)}")
        if returncode == 1 and not lines:
            return self._result(problem="the verifier ended with 1, and printed nothing")
        if not lines and not _may_be_read(self._path):
            return self._result(
                problem="the verifier names no lost write, and has read none of the acknowledged lines"
            )
        acknowledged = self._path.read_text(errors="replace").splitlines()
        lost = naming_any(lines, acknowledged)
        if lines and not lost:
            return self._result(
                problem="the verifier prints lines of which none names an acknowledged write, such as "
                f"`{lines[0][:_LONGEST_LINE]}`"
            )
        return self._result(lines=lost, verified=True)

    def so_far(self) -> AcknowledgedWrites:
        """What there is while the load goes on."""
        return self._result()

    def _count(self) -> int:
        """The lines that are whole."""
        with self._path.open("rb") as file:
            file.seek(self._whole)
            new = file.read()
        self._lines += new.count(b"\n")
        self._whole += new.rfind(b"\n") + 1
        return self._lines

    def _result(
        self, *, lines: Sequence[str] = (), verified: bool = False, problem: str | None = None
    ) -> AcknowledgedWrites:
        return AcknowledgedWrites(
            before_kill=self._before_kill,
            acknowledged=self._lines,
            load_ended=self._load_ended,
            lost=tuple(line[:_LONGEST_LINE] for line in lines[:_LOST_KEPT]),
            lost_count=len(lines),
            verified=verified,
            problem=problem,
        )

    def _spawn(
        self, key: str, words: Sequence[str], output: Path, log: str, stdin: Path | None = None
    ) -> Child:
        logs = self._context.log_directory
        make_directory(logs)
        given = Path(os.devnull) if stdin is None else stdin
        with output.open("wb") as out, (logs / log).open("wb") as err, given.open("rb") as source:
            return start_command(
                self._plan,
                self._group,
                key,
                words,
                streams=(source.fileno(), out.fileno(), err.fileno()),
                acknowledged=str(self._path),
            )

    async def _has_ended(self, child: Child, limit_s: float) -> bool:
        """Whether it ends within `limit_s`."""
        with end_awaited(child.pidfd) as ended:
            return await BusyTimeout(limit_s, self._group.living_pids).wait(ended)

    async def _end(self, child: Child, limit_s: float) -> None:
        """SIGTERM, and SIGKILL after `limit_s`. A load may go on for ever, and must not."""
        for number, seconds in ((signal.SIGTERM, limit_s), (signal.SIGKILL, _LAST_LIMIT_S)):
            if has_ended(child.pidfd):
                break
            signal.pidfd_send_signal(child.pidfd, number)
            await self._has_ended(child, seconds)


def naming_any(lines: Sequence[str], acknowledged: Sequence[str]) -> list[str]:
    """Those of `lines` that hold the words of an acknowledged line, one behind the other. Pure."""
    writes = {tuple(map(_bare, line.split())) for line in acknowledged}
    lengths = {len(words) for words in writes} - {0}

    def names_one(line: str) -> bool:
        words = tuple(map(_bare, line.split()))
        return any(
            words[start : start + length] in writes
            for length in lengths
            for start in range(len(words) - length + 1)
        )

    return [line for line in lines if names_one(line)]


def _bare(word: str) -> str:
    """A word without the signs that a sentence puts around it."""
    return word.strip(":,;.'\"`()[]") or word


def _may_be_read(path: Path) -> bool:
    """Whether anybody may have read the file since its access time was set; False only if its file system keeps that time."""
    if path.stat().st_atime_ns != _NEVER_READ_NS:
        return True
    with path.open("rb") as file:
        file.read(1)
    return path.stat().st_atime_ns == _NEVER_READ_NS


def _ending(child: Child) -> str:
    returncode = child.wait()
    return "in a way that nobody saw" if returncode is None else describe_exit(returncode)


def logs_of(plan: RestartPlan) -> tuple[Path, ...]:
    """The files that the commands of `plan` write, as far as they are there. Reads files."""
    logs = plan.context.log_directory
    files = (
        plan.directory / ACKNOWLEDGED_FILE,
        plan.directory / LOST_FILE,
        logs / LOAD_LOG,
        logs / VERIFY_LOG,
        logs / SETUP_LOG,
    )
    return tuple(file for file in files if file.is_file())
