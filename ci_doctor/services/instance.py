# SPDX-License-Identifier: Apache-2.0
"""One start of a service, its events and its end, as values and as what is watched of it. Pure."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_doctor.services.ready import ReadinessProbe, Scheme, written_host
from ci_doctor.services.spec import FilledSpec, ServiceSpec
from ci_doctor.system.processes.process import describe_exit, signal_name

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ci_doctor.model.service import NamedProcess
    from ci_doctor.system.processes.external_process import ExternalProcess
    from ci_doctor.system.processes.process import Child


class Allowance(Struct, frozen=True, kw_only=True):
    """What the system allows a process: the number of its user, and the most bytes of a file that it writes.

    None is unknown, or unlimited.
    """

    user: int | None = None
    file_bytes: int | None = None


NOBODY_KNOWS = Allowance()


class Subject(Struct, frozen=True, kw_only=True):
    """The service that a failure is about; `at` is monotonic seconds, `duration_s` its age.

    `log` is None if nobody knows it. `when` replaces its age in sentences, if that says nothing about its death.
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
        self.was_ready = False
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
