# SPDX-License-Identifier: Apache-2.0
"""What became of each start of each service, from the events of a group. Pure."""

from msgspec import Struct, structs

from ci_doctor.render.formatting import duration
from ci_doctor.services.outcome import EventKind, ServiceEvent


class StartRun(Struct, frozen=True, kw_only=True):
    """One start: `number` counts those of its service; `ready_s` is what it took to become ready.

    `by_itself` tells that nobody had requested its end, `how` by what it ended. `peak_rss` is
    bytes.
    """

    service: str
    number: int
    pid: int | None = None
    log: str | None = None
    started_at: float
    ended_at: float | None = None
    ready_s: float | None = None
    by_itself: bool = False
    how: str | None = None
    peak_rss: int | None = None

    @property
    def duration_s(self) -> float:
        """From its start to its end, as far as that is known."""
        if self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at

    @property
    def outcome(self) -> str:
        """`ready after 3.2 s, ended: killed by SIGKILL`."""
        story = "never ready"
        if self.ready_s is not None:
            story = f"ready after {duration(self.ready_s)}"
        if self.ended_at is not None:
            story += ", died" if self.by_itself else ", ended"
            if self.how:
                story += f": {self.how}"
        return story


class Starts:
    """Takes every event of a group."""

    def __init__(self) -> None:
        # By service and number: each start of a service has a log and an end of its own.
        self._runs: dict[tuple[str, int], StartRun] = {}

    def add(self, event: ServiceEvent) -> None:
        """Take note of an event."""
        if event.service is None:
            return
        number = event.start or 1
        key = (event.service, number)
        if event.kind is EventKind.STARTED:
            self._runs[key] = StartRun(
                service=event.service,
                number=number,
                pid=event.pid,
                log=event.log,
                started_at=event.at,
            )
        elif key in self._runs:
            self._runs[key] = _after(self._runs[key], event)

    @property
    def runs(self) -> tuple[StartRun, ...]:
        """In the order in which they were started."""
        return tuple(self._runs.values())


def _after(run: StartRun, event: ServiceEvent) -> StartRun:
    if event.kind is EventKind.READY:
        return structs.replace(run, ready_s=event.duration_s)
    if event.kind not in {EventKind.DIED, EventKind.STOPPED}:
        return run
    # The stop of the group reports every service once more; the first end is the real one.
    if run.ended_at is not None:
        return run
    how = None
    if event.exit_code is not None:
        how = f"exit code {event.exit_code}"
    elif event.signal:
        how = f"killed by {event.signal}"
    return structs.replace(
        run,
        ended_at=event.at,
        by_itself=event.kind is EventKind.DIED,
        how=how,
        peak_rss=event.peak_rss,
    )
