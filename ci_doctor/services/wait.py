# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: waits until an external process is ready or dead. Starts and kills nothing."""

import asyncio
import contextlib
import errno
import os
import signal
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from ci_doctor.diagnosis.log_end import PREPARE_AFTER_S, prepare_in_background
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.model.facts.launch import FailureKind, NamedProcess, ServiceFailure, WaitFacts
from ci_doctor.model.outcome import (
    Case,
    CaseOutcome,
    Evidence,
    Failure,
    Finding,
    Outcome,
    RemedyKind,
    Verdict,
    signal_kind,
)
from ci_doctor.render.formatting import duration
from ci_doctor.services import failure_cause
from ci_doctor.services.busy_timeout import before_death
from ci_doctor.services.descendants import (
    LARGEST_PID,
    DescendantEnd,
    DescendantPolicy,
    DescendantWatch,
    LimitWatches,
    await_pidfile,
    check_age,
    is_death,
)
from ci_doctor.services.findings import finding_of, with_next_step
from ci_doctor.services.instance import Death, Subject
from ci_doctor.services.ports import PortOwner
from ci_doctor.services.probe import ProbeContext, wait_until_ready
from ci_doctor.services.ready import ReadinessProbe, Scheme
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.processes.process_table import Kin, descendants, look_up, read_table
from ci_doctor.system.processes.tree import ExternalProcess

if TYPE_CHECKING:
    from ci_doctor.system.processes.process import Child

# --- an external process and what is below it, watched and probed ---

# A pipe, named or not: its device and its inode.
_Pipe = tuple[int, int]


def reads_pipe(pid: int) -> bool:
    """Whether its stdin is a pipe."""
    return _pipe(pid, 0) is not None


def writers_into(pid: int) -> frozenset[int]:
    """Who writes into the pipe that `pid` reads, also through other commands of its pipeline."""
    own = look_up(pid)
    first = _pipe(pid, 0)
    if own is None or first is None:
        return frozenset()
    table = tuple(read_table())
    pipes, found = {first}, set[int]()
    while more := [kin for kin in _writers(table, pipes) if kin.pid not in found | {pid}]:
        found.update(kin.pid for kin in more)
        # Commands of one pipeline have one parent. The stdin of any other is the job's own.
        inputs = (_pipe(kin.pid, 0) for kin in more if kin.parent == own.parent)
        pipes.update(pipe for pipe in inputs if pipe is not None)
    return frozenset(found)


def ends_pipeline(pid: int, writers: Iterable[int]) -> bool:
    """Whether one of the `writers` is a command beside `pid`, as a shell starts those of a pipeline."""
    own = look_up(pid)
    others = [look_up(writer) for writer in writers]
    return own is not None and any(kin and kin.parent == own.parent for kin in others)


def descends_from(pid: int, ancestors: frozenset[int]) -> bool:
    """Whether `pid` is one of `ancestors`, or below one of them."""
    while pid and pid not in ancestors:
        kin = look_up(pid)
        pid = kin.parent if kin is not None else 0
    return pid in ancestors


def _writers(table: Iterable[Kin], pipes: set[_Pipe]) -> Iterable[Kin]:
    for kin in table:
        if _pipe(kin.pid, 1) in pipes or _pipe(kin.pid, 2) in pipes:
            yield kin


def _pipe(pid: int, descriptor: int) -> _Pipe | None:
    """The pipe behind a descriptor; None if it is something else, or if we may not look."""
    try:
        status = os.stat(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH116 - of every process
    except OSError:
        return None
    if not stat.S_ISFIFO(status.st_mode):
        return None
    return status.st_dev, status.st_ino


# They take connections for a container that a process has asked a daemon to start.
_PROXIES = frozenset({"docker-proxy", "rootlessport", "pasta", "slirp4netns", "conmon"})


def _serves_container(owner: PortOwner) -> bool:
    """Whether it is a container's proxy, or lives in a pid namespace below ours."""
    if owner.name in _PROXIES:
        return True
    try:
        status = Path(f"/proc/{owner.pid}/status").read_text(errors="replace")
    except OSError:
        return False
    for line in status.splitlines():
        # One id for each pid namespace, from ours downwards (proc_pid_status(5)).
        if line.startswith("NSpid:"):
            return len(line.split()) > 2
    return False


_BEFORE = "before ci-doctor looked"
# For SIGKILL to take effect on what the command of an exec probe has left behind.
_KILL_S = 1.0
# Between two looks for the server behind a pipe.
_LOOK_S = 0.25


class ExternalWatch:
    """Watches `processes` inside a running loop; `log` is where they write, if that is known.

    Close the processes after it: the server behind a pipe is added to them once it is known.
    """

    def __init__(
        self,
        processes: list[ExternalProcess],
        log: Path | None,
        probe: ReadinessProbe,
        policy: DescendantPolicy,
    ) -> None:
        self._processes = processes
        self._log = log
        self._probe = probe
        self._policy = policy
        self._began = clock.now()
        # Before the readers are added, which would report the same end.
        self._dead_before = next((each for each in processes if each.has_ended()), None)
        limits = LimitWatches()
        limits.look(processes[0].pid)
        self._limits = limits.of(processes[0].pid)
        self._loop = asyncio.get_running_loop()
        # What makes the failure, and not yet the failure: an error in a callback of the loop would
        # only be logged.
        self._death: asyncio.Future[Callable[[], ServiceFailure]] = self._loop.create_future()
        self._descendants = DescendantWatch(self._pids, self._descendant_ended)
        for process in processes:
            self._loop.add_reader(process.pidfd, self._ended, process)
        self._descendants.start()
        self._server: ExternalProcess | None = None
        self._looking = self._loop.call_later(_LOOK_S, self._look_behind_pipes)
        self._preparation = self._loop.call_later(PREPARE_AFTER_S, prepare_in_background)

    def close(self) -> None:
        """Watch no more; may be called again."""
        for process in self._processes:
            self._loop.remove_reader(process.pidfd)
        self._preparation.cancel()
        self._looking.cancel()
        self._descendants.close()

    async def until_ready(
        self,
        limit_s: float,
        environment: Mapping[str, str],
        directory: Path,
        on_answer: Callable[[str], None],
    ) -> ServiceFailure | None:
        """None once it is ready and answers itself, else what is wrong with it.

        Raises UsageError if it is the last command of a pipeline, and the server is not in that.
        """
        dead = self._dead_before
        if dead is not None:
            return self._died(dead, clock.now(), dead.wait(), _BEFORE)
        with self._probe_context(environment, directory) as context:
            # A probe may take its whole attempt to notice what the pidfd tells at once.
            asking = wait_until_ready(self._probe, limit_s, context, on_answer=on_answer)
            (probe,) = await before_death(self._death, asking)
        if self._death.done():
            return self._death.result()()
        return self._judged(probe.result())

    def _judged(self, problem: str | None) -> ServiceFailure | None:
        """What the last answer means: None if the process is ready, and answered itself."""
        owner = None
        if problem is None:
            owner = self._foreign_listener()
        # Only now: to look for an owner takes time, in which the process may end.
        dead = next((each for each in self._processes if each.has_ended()), None)
        if dead is not None:
            return self._died(dead, clock.now(), dead.wait())
        subject = self._subject(self._processes[0], clock.now())
        if owner is not None and not self._is_behind_pipe(owner):
            return failure_cause.answered_by_another(subject, owner)
        if problem is None:
            return None
        # It counts how long the wait was, not how old the process is.
        subject = structs.replace(subject, duration_s=clock.now() - self._began)
        return failure_cause.not_ready(subject, problem)

    def _pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes)

    def _living(self) -> tuple[Kin, ...]:
        """The processes and their descendants that have not ended, orphaned ones included."""
        processes = {}
        table = tuple(read_table())
        for pid in self._pids():
            own = look_up(pid)
            # The table shows what is below it now; only the watch knows what has been adopted since.
            below = descendants(table, pid, frozenset())
            for kin in (own, *below, *self._descendants.below(pid)):
                if kin is not None and not kin.ended:
                    processes[kin.identity] = kin
        return tuple(processes.values())

    def _living_pids(self) -> list[int]:
        return [kin.pid for kin in self._living()]

    def _foreign_listener(self) -> PortOwner | None:
        """Who listens where the probe asks, if it is none of the watched processes.

        None if there is none, or if its owner is unknown. A listener that serves a container and is
        younger than the watched process does not count: that may be the client that had the
        container started. `failure_cause.older_listener` excludes every younger listener.
        """
        own = [process.kin.started for process in self._processes if process.kin is not None]
        for owner in failure_cause.foreign_listeners(self._probe, self._living_pids):
            other = look_up(owner.pid or 0)
            # Start times are clock ticks (proc_pid_stat(5)): two quick starts may share one.
            is_younger = other is not None and own and other.started >= min(own)
            if not is_younger or not _serves_container(owner):
                return owner
        return None

    def _look_behind_pipes(self) -> None:
        """Watch the server from when it listens, not only from when it answers."""
        if self._server is None and any(map(reads_pipe, self._pids())):
            with contextlib.suppress(UsageError):  # only whoever answers is to blame
                owner = self._foreign_listener()
                if owner is not None:
                    self._is_behind_pipe(owner)
            self._looking = self._loop.call_later(_LOOK_S, self._look_behind_pipes)

    def _is_behind_pipe(self, owner: PortOwner) -> bool:
        """Whether `owner` writes into the pipe that a process reads; it is watched from then on.

        Raises UsageError if a process is the last command of a pipeline without `owner`.
        """
        for process in tuple(self._processes):
            writers = writers_into(process.pid)
            if owner.pid is not None and descends_from(owner.pid, writers):
                server = ExternalProcess.open(owner.pid)
                if server is not None:
                    self._server = server
                    self._processes.append(server)
                    self._loop.add_reader(server.pidfd, self._ended, server)
                return True
            if ends_pipeline(process.pid, writers):
                raise UsageError(
                    f"{process.name} reads the output of a pipeline, and {owner.describe()}: that "
                    "is no command of this pipeline",
                    hint="`$!` of a pipeline is its last command: name the server's own pid, as "
                    "after `server > server.log 2>&1 &`",
                )
        return False

    def _ended(self, process: ExternalProcess) -> None:
        at = clock.now()
        self._loop.remove_reader(process.pidfd)
        # Whoever reads its pipe ends with it.
        if self._server is not None and self._server.has_ended():
            process = self._server
        if not self._death.done():
            # At once: its exit code can be read until its parent waits for it.
            self._death.set_result(partial(self._died, process, at, process.wait()))

    def _died(
        self, process: ExternalProcess, at: float, returncode: int | None, when: str | None = None
    ) -> ServiceFailure:
        subject = structs.replace(self._subject(process, at), when=when)
        return failure_cause.died(subject, self._limits.death(returncode), self._living)

    def _descendant_ended(self, root: int | None, end: DescendantEnd) -> None:
        parent = next((each for each in self._processes if each.pid == root), None)
        if parent is None or self._death.done():
            return
        if is_death(self._policy, end.returncode, root_ended=end.root_ended):
            self._death.set_result(partial(self._lost_one, parent, end))

    def _lost_one(self, parent: ExternalProcess, end: DescendantEnd) -> ServiceFailure:
        subject = self._subject(parent, end.at)
        process = NamedProcess(pid=end.kin.pid, name=end.kin.name)
        death = self._limits.death(end.returncode)
        return failure_cause.descendant_died(subject, process, death)

    def _subject(self, process: ExternalProcess, at: float) -> Subject:
        return Subject(
            name=process.name,
            pid=process.pid,
            port=self._probe.port,
            log=self._log,
            was_ready=False,
            at=at,
            duration_s=at - process.started_at,
        )

    @contextlib.contextmanager
    def _probe_context(
        self, environment: Mapping[str, str], directory: Path
    ) -> Iterator[ProbeContext]:
        """What the probe works with."""
        pids = self._living_pids
        with contextlib.ExitStack() as stack:
            spawn = None
            if any(part.scheme is Scheme.EXEC for part in self._probe.leaves()):
                spawn = stack.enter_context(_commands(environment, directory))
            yield ProbeContext(log=self._log, environment=environment, spawn=spawn, pids=pids)


def absent(pid: int, log: Path | None, probe: ReadinessProbe) -> ServiceFailure:
    """There is no process `pid`: it ended, and its parent has taken its exit code, or it never was."""
    subject = Subject(
        name=f"pid {pid}",
        pid=pid,
        port=probe.port,
        log=log,
        was_ready=False,
        at=clock.now(),
        duration_s=0.0,
        when=f"{_BEFORE}, or never was",
    )
    return failure_cause.died(subject, Death(returncode=None), lambda: ())


@contextlib.contextmanager
def _commands(
    environment: Mapping[str, str], directory: Path
) -> "Iterator[Callable[[Sequence[str], int], Child]]":
    """What runs the commands of an exec probe; they, and what they leave behind, end with it."""
    from ci_doctor.system.guardian import Guardian
    from ci_doctor.system.processes.tree import OwnTree

    guardian = Guardian.start()
    try:
        tree = OwnTree(guardian)

        def spawn(words: Sequence[str], output: int) -> "Child":
            return guardian.spawn(
                words, environment=environment, directory=directory, output=output
            )

        try:
            yield spawn
        finally:
            tree.kill(_KILL_S)
    finally:
        guardian.close()


class WaitRequest(Struct, frozen=True, kw_only=True):
    """What to wait for, for `limit_s` seconds: the `probe` of a process, while all of them live.

    These are the processes `pids`, or the one that `pidfile` will name. `environment` and `directory`
    are what probes work with.
    """

    probe: ReadinessProbe
    limit_s: float
    pids: tuple[int, ...] = ()
    pidfile: Path | None = None
    log: Path | None = None
    descendants: DescendantPolicy = "signal"
    environment: Mapping[str, str] = {}
    directory: Path = Path()


class WaitProgress(Struct, frozen=True, kw_only=True):
    """How it stands: `answer` is why it is not ready yet."""

    name: str
    waited_s: float
    answer: str


_OUTCOMES = {Verdict.PASS: CaseOutcome.PASSED, Verdict.INFRA: CaseOutcome.ERROR}


def outcome_of(waited: WaitFacts) -> Outcome:
    """What the wait comes to."""
    age, name, failure = duration(waited.waited_s), waited.name, waited.cause
    if waited.received is not None:
        message = f"interrupted by {waited.received} after {age}; {name} was not ready yet"
        if waited.answer:
            message += f": {waited.answer}"
        error = Failure(message=message, kind=signal_kind(waited.received))
        return Outcome(verdict=None, summary=message, error=error, facts=waited)
    if failure is None:
        summary = f"{name} is ready: {waited.probe}, after {age}"
    elif failure.kind is FailureKind.NOT_READY:
        summary = f"{name} was not ready in time: {waited.probe}"
    else:
        summary = f"{name} will not become ready: {waited.probe}"
    verdict = Verdict.PASS if failure is None else failure.verdict
    case = Case(
        group="services",
        name=name,
        outcome=_OUTCOMES.get(verdict, CaseOutcome.FAILED),
        message=None if failure is None else failure.message,
        detail=None if failure is None else "\n".join(failure.tail) or None,
        duration_s=waited.waited_s,
    )
    return Outcome(
        verdict=verdict,
        summary=summary,
        findings=() if failure is None else (_finding(failure),),
        cases=(case,),
        facts=waited,
    )


def _finding(failure: ServiceFailure) -> Finding:
    finding = finding_of(failure)
    advice = _advice(failure)
    if advice is not None:
        finding = structs.replace(finding, remedy=advice, remedy_kind=RemedyKind.ADVICE)
    if not failure.exit_unknown:
        return finding
    why = "exit code unknown: only the parent of a process gets it, and that is not ci-doctor"
    return structs.replace(finding, evidence=(*finding.evidence, Evidence(excerpt=why)))


def _advice(failure: ServiceFailure) -> str | None:
    """What to do, for options that only `wait` has; None if the finding has its own remedy."""
    if failure.kind is FailureKind.NOT_READY:
        advice = "see whether it still made progress before you raise --timeout"
        if failure.pid is None:
            advice = "see whether it was started, and whether it writes this pidfile"
        elif failure.log is None:
            advice = "name its log with --log FILE; raise --timeout only if it still made progress"
        return with_next_step(advice, failure)
    if failure.kind is FailureKind.DIED and failure.log is None:
        return "name its log with --log FILE, and its last lines stand here"
    return None


# For a terminal: a clock that a reader sees move, without a redraw that costs CPU.
_TICK_S = 0.25


class _Wait:
    """One wait under way."""

    def __init__(self, request: WaitRequest, on_progress: Callable[[WaitProgress], None]) -> None:
        self._request = request
        self._on_progress = on_progress
        self._began = clock.now()
        self._deadline = self._began + request.limit_s
        self._processes: list[ExternalProcess] = []
        named = " and ".join(f"pid {pid}" for pid in request.pids)
        self._name = named or str(request.pidfile)
        self._answer = ""

    async def to_the_end(self, interruption: Interruption) -> WaitFacts:
        """Ready, dead, out of time, or interrupted."""
        ticking = asyncio.create_task(self._tick())
        try:
            with interruption.watch():
                return self._waited(failure=await self._wait())
        except asyncio.CancelledError:
            if interruption.received is None:
                raise
            return self._waited(received=interruption.received)
        finally:
            ticking.cancel()
            for process in self._processes:
                process.close()

    async def _wait(self) -> ServiceFailure | None:
        failure = await self._open()
        if failure is not None:
            return failure
        self._name = " and ".join(process.name for process in self._processes)
        watch = ExternalWatch(
            self._processes, self._request.log, self._request.probe, self._request.descendants
        )
        try:
            return await watch.until_ready(
                self._deadline - clock.now(),
                self._request.environment,
                self._request.directory,
                self._note,
            )
        finally:
            watch.close()

    async def _open(self) -> ServiceFailure | None:
        """Open the processes to wait for; why there is none."""
        pids = self._request.pids
        pidfile = self._request.pidfile
        if pidfile is not None:
            pid = await await_pidfile(pidfile, self._request.limit_s)
            if not isinstance(pid, int):
                limit = f"{self._request.limit_s:g} s"
                now = clock.now()
                return ServiceFailure(
                    kind=FailureKind.NOT_READY,
                    service=self._name,
                    message=f"no process was named within {limit}: {pid}",
                    at=now,
                    duration_s=now - self._began,
                )
            pids = (pid,)
            self._name = f"pid {pid}"
        for pid in pids:
            try:
                process = ExternalProcess.open(pid)
            except OSError as error:
                raise _cannot_watch(pid, error) from error
            if process is None:
                return absent(pid, self._request.log, self._request.probe)
            self._processes.append(process)
            if pidfile is not None:
                check_age(pidfile, process)
        return None

    def _note(self, answer: str) -> None:
        # Not only with the next tick: a wait may end before that.
        is_first = not self._answer
        self._answer = answer
        if is_first:
            self._report()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._report()

    def _report(self) -> None:
        waited_s = clock.now() - self._began
        progress = WaitProgress(name=self._name, waited_s=waited_s, answer=self._answer)
        self._on_progress(progress)

    def _waited(
        self, *, failure: ServiceFailure | None = None, received: signal.Signals | None = None
    ) -> WaitFacts:
        # With a pidfile, nobody named a pid before.
        pids = [process.pid for process in self._processes] or self._request.pids
        return WaitFacts(
            name=self._name,
            pid=next(iter(pids), None),
            probe=self._request.probe.describe(),
            waited_s=round(clock.now() - self._began, 3),
            answer=self._answer or None,
            cause=failure,
            received=received.name if received else None,
        )


def _cannot_watch(pid: int, error: OSError) -> UsageError | InfraError:
    # pidfd_open(2): EINVAL; ENOENT from Linux 6.10 on
    if error.errno in {errno.EINVAL, errno.ENOENT}:
        return UsageError(
            f"{pid} is the id of a thread, not of a process",
            hint="name the process; `ps -o pid,tid -L`",
        )
    return InfraError(
        f"cannot watch pid {pid}: {error.strerror}", hint="see pidfd_open(2), and `ulimit -n`"
    )


def run(
    request: WaitRequest,
    *,
    interruption: Interruption | None = None,
    on_progress: Callable[[WaitProgress], None] = lambda _: None,
) -> Outcome:
    """Wait until the process is ready or dead, and judge.

    `on_progress` is called four times a second, and at once for the first answer that is not good.
    `interruption` is handling signals already; without one, signals are handled here. Raises
    UsageError if nobody can wait for `request`, InfraError if the system does not let us watch.
    """
    check_request(request)
    with contextlib.ExitStack() as stack:
        if interruption is None:
            interruption = Interruption()
            stack.enter_context(interruption.handling())
        with asyncio.Runner() as runner:
            waited = runner.run(_Wait(request, on_progress).to_the_end(interruption))
    return outcome_of(waited)


def check_request(request: WaitRequest) -> None:
    """Raises UsageError for a request that makes no sense."""
    if bool(request.pids) is (request.pidfile is not None):
        raise UsageError(
            "exactly one of --pid and --pidfile is needed",
            hint="name the process, or the file that will",
        )
    for pid in request.pids:
        _check_pid(pid)
    probe = request.probe
    for part in probe.leaves():
        if part.is_network and not part.port:
            raise UsageError(
                f"--ready {part.path} names no host and port",
                hint=f"write the whole URL: http://127.0.0.1:8000{part.path}",
            )
        if part.scheme is Scheme.LOG and request.log is None:
            raise UsageError("--ready log:… needs a log to look in", hint="name it with --log FILE")
    # A log that is not there yet may still come.
    log = request.log
    if log is not None and log.exists() and not (log.is_file() or log.is_char_device()):
        raise UsageError(
            f"--log {log} is no regular file, so its end cannot be read",
            hint="`tee FILE` writes a file beside a pipe",
        )


def _check_pid(pid: int) -> None:
    refusals = (
        (
            pid <= 0,
            "names no process",
            "is the variable that held it empty, or a process group?",
        ),
        (
            pid > LARGEST_PID,
            "names no process: no system has so many",
            f"a pid is at most {LARGEST_PID} (proc_sys_kernel(5), pid_max)",
        ),
        (pid == 1, "is the system's first process", "name the server itself"),
        (
            pid == os.getpid(),
            "is ci-doctor itself",
            "name the server, as in `--pid $!` right after its start",
        ),
    )
    for is_wrong, why, hint in refusals:
        if is_wrong:
            raise UsageError(f"--pid {pid} {why}", hint=hint)
