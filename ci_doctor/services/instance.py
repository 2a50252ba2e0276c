# SPDX-License-Identifier: Apache-2.0
"""Acts on nothing by itself: one start of a service, as a value for others and as what is watched of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ci_doctor.services.failure import Subject
from ci_doctor.services.outcome import EventKind, ServiceEvent
from ci_doctor.services.probes.ready import ReadinessProbe
from ci_doctor.services.spec import FilledSpec, ServiceSpec
from ci_doctor.system.processes.process import signal_name

if TYPE_CHECKING:
    import asyncio


class RunningService(Struct, frozen=True, kw_only=True):
    """A service that was started; `command` is as run. `probe` asks whether it is ready, `port` is where it is reached.

    `start` counts the starts of this service in its group; `pid` and `started` (clock ticks since boot) tell one from
    the next.
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
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


class WatchedProcess(Protocol):
    """A process whose end is awaited: our child, or one that a child left in the background."""

    pid: int
    pidfd: int
    started_at: float

    @property
    def peak_rss(self) -> int | None:
        """Bytes, known after the end."""

    def wait(self) -> int | None:
        """The exit code or negative signal, once `pidfd` is readable; None where nobody can say."""

    def returncode(self) -> int | None:
        """The same; None while it lives too."""

    def close(self) -> None:
        """Give the pidfd back; may be called again."""


class Instance:
    """One start of a service under watch. `wanted` says that its end was asked for, and is no death."""

    def __init__(
        self,
        service: RunningService,
        spec: ServiceSpec,
        filled: FilledSpec,
        process: WatchedProcess,
    ) -> None:
        self.service = service
        self.spec = spec
        self.filled = filled
        self.process = process
        self.began = process.started_at
        self.was_ready = False
        self.wanted = False
        self.ended = False
        self.told_to_stop: float | None = None
        self.following: asyncio.Task[None] | None = None
        self.cleanup: list[Any] = []

    @property
    def name(self) -> str:
        """The service's."""
        return self.service.name

    def subject(self, at: float) -> Subject:
        """The service as a failure speaks of it, as old as it is `at` that monotonic second."""
        return Subject(
            name=self.name,
            pid=self.process.pid,
            port=self.service.port,
            log=self.service.log,
            was_ready=self.was_ready,
            at=at,
            duration_s=at - self.began,
        )

    def event(
        self, kind: EventKind, at: float, *, returncode: int | None = None, **fields: Any
    ) -> ServiceEvent:
        """What happened to it; `returncode` as subprocess has it, `fields` are the other fields of the event."""
        return ServiceEvent(
            kind=kind,
            service=self.name,
            at=at,
            **{
                "start": self.service.start,
                "pid": self.process.pid,
                "log": str(self.service.log),
                "exit_code": returncode if returncode is not None and returncode >= 0 else None,
                "signal": signal_name(-returncode)
                if returncode is not None and returncode < 0
                else None,
                **fields,
            },
        )
