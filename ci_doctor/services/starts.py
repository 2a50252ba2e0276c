# SPDX-License-Identifier: Apache-2.0
"""What became of each start of a service, from the events of its group, as reports show it. Pure."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from ci_doctor.model.facts.launch import ServiceRun
from ci_doctor.model.outcome import Attachment, Attempt, Failure, signal_kind
from ci_doctor.model.service import NamedProcess, ServiceFailure, StopResult
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.services.spec import relative


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
