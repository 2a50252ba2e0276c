# SPDX-License-Identifier: Apache-2.0
"""What became of each start of each service, put together from the events of a group. Pure."""

from msgspec import Struct, structs

from ci_doctor.services.outcome import EventKind, ServiceEvent


class StartRun(Struct, frozen=True, kw_only=True):
    """One start: `number` counts those of its service; `ready_s` is what it took to become ready, None so far.

    `by_itself` says that nobody had asked it to end. `peak_rss` is bytes.
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
        return self.ended_at - self.started_at if self.ended_at is not None else 0.0

    @property
    def outcome(self) -> str:
        """`ready after 3.2 s, then killed by SIGKILL`."""
        ready = f"ready after {self.ready_s:.1f} s" if self.ready_s is not None else "never ready"
        if self.ended_at is None:
            return ready
        verb = "died" if self.by_itself else "ended"
        return f"{ready}, {verb}: {self.how}" if self.how else f"{ready}, {verb}"


class Starts:
    """Give it every event of a group."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], StartRun] = {}

    def add(self, event: ServiceEvent) -> None:
        """Take note of an event."""
        if event.service is None:
            return
        key = (event.service, event.start or 1)
        if event.kind is EventKind.STARTED:
            self._runs[key] = StartRun(
                service=key[0], number=key[1], pid=event.pid, log=event.log, started_at=event.at
            )
        elif (run := self._runs.get(key)) is not None:
            self._runs[key] = _after(run, event)

    @property
    def runs(self) -> tuple[StartRun, ...]:
        """In the order in which they were started."""
        return tuple(self._runs.values())


def _after(run: StartRun, event: ServiceEvent) -> StartRun:
    if event.kind is EventKind.READY:
        return structs.replace(run, ready_s=event.duration_s)
    if event.kind not in {EventKind.DIED, EventKind.STOPPED} or run.ended_at is not None:
        return run
    how = f"killed by {event.signal}" if event.signal else None
    if event.exit_code is not None:
        how = f"exit code {event.exit_code}"
    return structs.replace(
        run,
        ended_at=event.at,
        by_itself=event.kind is EventKind.DIED,
        how=how,
        peak_rss=event.peak_rss,
    )
