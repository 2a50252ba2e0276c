# SPDX-License-Identifier: Apache-2.0
"""What became of each service of a launch, put together from its events. Pure."""

from collections.abc import Sequence

from msgspec import Struct, structs

from ci_doctor.model.service import NamedProcess
from ci_doctor.services.outcome import EventKind, ServiceEvent

_ENDED = {EventKind.DIED, EventKind.STOPPED}


class ServiceRun(Struct, frozen=True, kw_only=True):
    """One service: how its start went so far.

    `started_at`, `ended_at` are monotonic seconds, `ready_s` what it took to become ready.
    `exit_code` or `signal` tell how its process ended, `by_itself` that nobody had requested it.
    `peak_rss` is bytes.
    """

    name: str
    pid: int | None = None
    log: str | None = None
    url: str | None = None
    started_at: float | None = None
    ready_s: float | None = None
    ended_at: float | None = None
    by_itself: bool = False
    exit_code: int | None = None
    signal: str | None = None
    peak_rss: int | None = None

    @property
    def duration_s(self) -> float:
        """From its start to its end; 0 if it was not started or has not ended."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at


class LaunchRecord:
    """Takes every event of a group; `services` are in the order of `names`."""

    def __init__(self, names: Sequence[str]) -> None:
        self._runs: dict[str, ServiceRun] = {}
        for name in names:
            self._runs[name] = ServiceRun(name=name)
        self.killed: list[NamedProcess] = []

    @property
    def services(self) -> tuple[ServiceRun, ...]:
        """Each service so far."""
        return tuple(self._runs.values())

    def add(self, event: ServiceEvent) -> None:
        """Take note of an event."""
        if event.kind is EventKind.KILLED and event.pid is not None:
            process = NamedProcess(pid=event.pid, name=event.name or "?")
            self.killed.append(process)
        # Events about a worker or a whole group name no service.
        if event.service in self._runs:
            run = self._runs[event.service]
            self._runs[event.service] = _after(run, event)


def _after(run: ServiceRun, event: ServiceEvent) -> ServiceRun:
    if event.kind is EventKind.STARTED:
        return ServiceRun(name=run.name, pid=event.pid, log=event.log, started_at=event.at)
    if event.kind is EventKind.READY:
        return structs.replace(run, ready_s=event.duration_s, url=event.url)
    if event.kind in _ENDED:
        return structs.replace(
            run,
            ended_at=event.at,
            by_itself=event.kind is EventKind.DIED,
            exit_code=event.exit_code,
            signal=event.signal,
            peak_rss=event.peak_rss,
        )
    return run
