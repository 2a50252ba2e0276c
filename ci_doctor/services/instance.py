# SPDX-License-Identifier: Apache-2.0
"""Pure. One start of a service, its events and its end, as values, as what is watched of it and as reports show it."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from ci_doctor.model.facts.launch import NamedProcess, ServiceFailure, ServiceRun, StopResult
from ci_doctor.model.outcome import Attachment, Attempt, Failure, signal_kind
from ci_doctor.services.ready import ReadinessProbe, Scheme, written_host
from ci_doctor.services.spec import FilledSpec, ServiceSpec, relative
from ci_doctor.system.processes.process import Child, describe_exit, signal_name

if TYPE_CHECKING:
    import asyncio

    from ci_doctor.system.processes.tree import ExternalProcess


class Allowance(Struct, frozen=True, kw_only=True):
    """What the system allows a process: the number of its user, and the most bytes of a file that it writes.

    None is unknown, or unlimited.
    """

    user: int | None = None
    file_bytes: int | None = None


NOBODY_KNOWS = Allowance()


class Subject(Struct, frozen=True, kw_only=True):
    """The service that a failure is about; `at` is monotonic seconds, `duration_s` its age.

    `log` is None if nobody knows it. `ready_at` is monotonic seconds, None if it is not known. `when`
    replaces its age in sentences, if that says nothing about its death.
    """

    name: str
    pid: int
    port: int
    log: Path | None
    was_ready: bool
    at: float
    duration_s: float
    allowed: Allowance = NOBODY_KNOWS
    when: str | None = None
    ready_at: float | None = None


class Death(Struct, frozen=True, kw_only=True):
    """How a process ended.

    `returncode` is as subprocess has it, None if nobody knows; `peak_rss` is bytes. `oom` tells
    whose memory ran out, if the kernel killed for lack of it; `host_oom` that it was the machine's.
    `task_limit`: how many processes and threads its cgroup allows, if the kernel refused one before.
    """

    returncode: int | None
    peak_rss: int | None = None
    oom: str | None = None
    host_oom: bool = False
    task_limit: int | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code; None if a signal ended it."""
        if self.returncode is None or self.returncode < 0:
            return None
        return self.returncode

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, if one did."""
        if self.returncode is None or self.returncode >= 0:
            return None
        return signal_name(-self.returncode)

    def words(self) -> str:
        """`exit code 3`, `killed by SIGKILL (9)`."""
        if self.returncode is None:
            return "its exit code is unknown"
        return describe_exit(self.returncode)


class EventKind(StrEnum):
    """What can happen to a service, in the order in which it does."""

    STARTED = "started"
    READY = "ready"
    DIED = "died"
    DESCENDANT_DIED = "descendant-died"
    STOPPING = "stopping"
    KILLED = "killed"
    STOPPED = "stopped"


class ServiceEvent(
    Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"kind": "event", "at": "t"}
):
    """Something happened to `service`.

    `at` is monotonic seconds (system.clock). `duration_s` counts from the service's start (for
    `stopped`, from `stopping`). `start` counts the starts of the service in its group. `killed` and
    `descendant-died` are about one process, under its own `pid` and `name`; `service` is None if
    `killed` ended a process further down. `peak_rss` is bytes, `oom` as in ServiceFailure. `url` is
    the address of a service that is ready.
    """

    kind: EventKind
    service: str | None
    at: float
    start: int | None = None
    pid: int | None = None
    log: str | None = None
    url: str | None = None
    duration_s: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    name: str | None = None
    peak_rss: int | None = None
    oom: str | None = None


class RunningService(Struct, frozen=True, kw_only=True):
    """A service that was started; `command` is as run.

    `probe` tells whether it is ready, `port` is where clients reach it. `start` counts the starts
    of this service in its group; `pid` and `started` (clock ticks since boot) identify this one.
    """

    name: str
    pid: int
    started: int
    start: int
    probe: ReadinessProbe
    port: int
    log: Path
    command: tuple[str, ...]

    @property
    def base_url(self) -> str:
        """`http://host:port`, where clients reach it."""
        host = self.probe.host if self.probe.is_network else "127.0.0.1"
        return f"http://{written_host(host)}:{self.port}"

    @property
    def address(self) -> str | None:
        """Where it was reached, as people are shown it: `tcp://…` if only that was tried."""
        if not self.probe.is_network:
            return None
        if self.probe.scheme is Scheme.TCP:
            return self.probe.describe()
        if self.probe.tls:
            return f"https://{written_host(self.probe.host)}:{self.port}"
        return self.base_url


class Instance:
    """One start of a service under watch.

    `answer` is what was wrong with its probe in the last attempt that had its full time.
    `stop_wanted` is True once its end was requested: an end after that is no death. `stopping_since` is the
    monotonic time of that request, if the group as a whole was stopped. `at_ready` are the pids below it
    when it was ready. `lost` is the first of these that ended with another code than 0, at what time, and how.
    """

    def __init__(
        self,
        service: RunningService,
        spec: ServiceSpec,
        filled: FilledSpec,
        process: "Child | ExternalProcess",
    ) -> None:
        self.service = service
        self.spec = spec
        self.filled = filled
        self.process = process
        self.began = process.started_at
        self.ready_at: float | None = None
        self.allowed = NOBODY_KNOWS
        self.at_ready: frozenset[int] = frozenset()
        self.lost: tuple[float, NamedProcess, Death] | None = None
        self.answer = ""
        # Set before the signal is sent, so that no end in between counts as a death.
        self.stop_wanted = False
        self.ended = False
        self.stopping_since: float | None = None
        self.following: asyncio.Task[None] | None = None
        self.cleanup: list[Callable[[], object]] = []

    @property
    def name(self) -> str:
        """The name of the service."""
        return self.service.name

    @property
    def was_ready(self) -> bool:
        """Whether it has answered its probe."""
        return self.ready_at is not None

    def note_answer(self, answer: str) -> None:
        """Keep what an attempt of its probe has shown: a cancelled wait takes it along."""
        self.answer = answer

    def subject(self, at: float) -> Subject:
        """What a failure says of the service; its age is that at `at` (monotonic seconds)."""
        return Subject(
            name=self.name,
            pid=self.process.pid,
            allowed=self.allowed,
            port=self.service.port,
            log=self.service.log,
            was_ready=self.was_ready,
            ready_at=self.ready_at,
            at=at,
            duration_s=at - self.began,
        )

    def event(self, kind: EventKind, at: float, **fields: Any) -> ServiceEvent:
        """Return an event of this service; `fields` are its other fields."""
        return ServiceEvent(
            kind=kind,
            service=self.name,
            at=at,
            start=self.service.start,
            log=str(self.service.log),
            **{"pid": self.process.pid, **fields},
        )

    def end_event(self, kind: EventKind, at: float, death: Death, **fields: Any) -> ServiceEvent:
        """Return an event about the end of its process, or of a descendant."""
        return self.event(
            kind, at, exit_code=death.exit_code, signal=death.signal, oom=death.oom, **fields
        )


# --- what became of each start of a service, from the events of its group, as reports show it ---


class Starts:
    """Takes every event of a group. A service of `names` has a run before it is started.

    `runs` are by name and number of the start, `killed` what had to be killed.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        # Each start of a service has a log and an end of its own.
        self._runs = {(name, 1): ServiceRun(name=name) for name in names}
        self.killed: list[NamedProcess] = []

    @property
    def runs(self) -> tuple[ServiceRun, ...]:
        """Those named first, the others in the order in which they were started."""
        return tuple(self._runs.values())

    def add(self, event: ServiceEvent) -> None:
        """Take note of an event."""
        if event.kind is EventKind.KILLED and event.pid is not None:
            self.killed.append(NamedProcess(pid=event.pid, name=event.name or "?"))
        # Events about a worker or a whole group name no service.
        if event.service is None:
            return
        number = event.start or 1
        run = self._runs.get((event.service, number), ServiceRun(name=event.service, start=number))
        self._runs[event.service, number] = _after(run, event)


def _after(run: ServiceRun, event: ServiceEvent) -> ServiceRun:
    if event.kind is EventKind.STARTED:
        return structs.replace(run, pid=event.pid, log=event.log, started_at=event.at)
    if event.kind is EventKind.READY:
        return structs.replace(run, ready_s=event.duration_s, url=event.url)
    # The stop of a group may report a service once more; the first end is the real one.
    if event.kind not in {EventKind.DIED, EventKind.STOPPED} or run.ended_at is not None:
        return run
    return structs.replace(
        run,
        ended_at=event.at,
        by_itself=event.kind is EventKind.DIED,
        exit_code=event.exit_code,
        signal=event.signal,
        peak_rss=event.peak_rss,
    )


def attempt_of(
    run: ServiceRun, directory: Path, *, name: str, outcome: str, is_ok: bool
) -> Attempt:
    """The start as an attempt of a report that lies in `directory`."""
    return Attempt(
        name=name,
        outcome=outcome,
        ok=is_ok,
        duration_s=round(run.duration_s, 3),
        log=relative(run.log, directory) if run.log else None,
        facts={"pid": run.pid, "ready_s": run.ready_s, "peak_rss": run.peak_rss},
    )


def logs_of(runs: Iterable[ServiceRun], directory: Path) -> tuple[Attachment, ...]:
    """The logs of `runs`, for a report in `directory`."""
    logs = []
    for run in runs:
        if run.log is not None:
            title = (
                f"log of {run.name}" if run.start == 1 else f"log of {run.name}, start {run.start}"
            )
            logs.append(Attachment(path=relative(run.log, directory), title=title))
    return tuple(logs)


def with_relative_log(failure: ServiceFailure, cwd: Path) -> ServiceFailure:
    """`failure` with the path of its log as a person types it; one that never started has none."""
    if failure.log is None:
        return failure
    return structs.replace(failure, log=relative(failure.log, cwd))


def interrupted(signal_name: str, stopped: StopResult | None) -> Failure:
    """That a signal has ended the command, and whether anything still runs."""
    how = "every process was stopped"
    if stopped is not None and stopped.survivors:
        how = f"could not stop {', '.join(process.name for process in stopped.survivors)}"
    return Failure(message=f"interrupted by {signal_name}; {how}", kind=signal_kind(signal_name))
