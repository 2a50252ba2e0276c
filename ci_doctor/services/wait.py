# SPDX-License-Identifier: Apache-2.0
"""Acts on file descriptors: waits until an external process is ready or dead. Starts and kills nothing."""

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, structs

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.model.facts.launch import FailureKind, ServiceFailure, WaitFacts
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
from ci_doctor.services.descendants import LARGEST_PID, DescendantPolicy, await_pidfile, check_age
from ci_doctor.services.external_watch import ExternalWatch, absent
from ci_doctor.services.findings import finding_of, with_next_step
from ci_doctor.services.ready import ReadinessProbe, Scheme
from ci_doctor.system import clock
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.processes.tree import ExternalProcess


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
