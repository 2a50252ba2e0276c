# SPDX-License-Identifier: Apache-2.0
"""Reads the logs of services: the events of services, of an experiment, of a restart and of a wait in lines."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ci_doctor.commands.teller import QUIET_S, Teller
from ci_doctor.model.facts.restart_check import Phase
from ci_doctor.render.formatting import duration, size
from ci_doctor.services.instance import EventKind, ServiceEvent
from ci_doctor.services.logs import LogWatch
from ci_doctor.system import clock
from ci_doctor.system.secrets.private_keys import StreamedKeys

if TYPE_CHECKING:
    from ci_doctor.correctness.attempt import ExperimentProgress
    from ci_doctor.restart.answers import RestartProgress
    from ci_doctor.services.wait import WaitProgress


_VERBS = {
    EventKind.STARTED: "started",
    EventKind.READY: "ready",
    EventKind.DIED: "died",
    EventKind.DESCENDANT_DIED: "lost",
    EventKind.STOPPING: "stopping",
    EventKind.KILLED: "killed",
    EventKind.STOPPED: "stopped",
}


def event_line(event: ServiceEvent) -> str:
    """Return one line: the service, what happened, after how long, and how it ended."""
    parts = [event.service, _VERBS[event.kind]]
    if event.name:
        parts.append(f"{event.name} (pid {event.pid})")
    elif event.kind is EventKind.STARTED:
        parts.append(f"(pid {event.pid}, {event.log})")
    if event.duration_s is not None:
        parts.append(f"after {duration(event.duration_s)}")
    if event.kind is EventKind.READY and event.url:
        parts.append(f"at {event.url}")
    ending = ""
    if event.signal:
        ending = f"by {event.signal}"
    elif event.exit_code is not None:
        ending = f"with exit code {event.exit_code}"
    line = " ".join(filter(None, (*parts, ending)))
    if event.kind is EventKind.DESCENDANT_DIED and not ending:
        # Only its parent learns that (wait(2)), and an old kernel tells nobody else.
        line += ", and how it ended is not known"
    return line


def service_lines(tell: Teller) -> Callable[[ServiceEvent], None]:
    """What shows each event of a group, behind the seconds from now."""
    began = clock.now()
    return lambda event: tell.say(f"{event.at - began:7.1f} s  {event_line(event)}")


class ServiceOutput:
    """Call it with each event of a group, inside `with` and inside an event loop."""

    def __init__(self, names: Sequence[str], tell: Teller) -> None:
        self._widest = max(map(len, names))
        self._tell = tell
        self._watches: list[LogWatch] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.close()

    def __call__(self, event: ServiceEvent) -> None:
        """Follow the log of a service that has started."""
        if event.kind is not EventKind.STARTED or event.log is None or event.service is None:
            return
        label = f"{event.service:<{self._widest}} | "
        log = event.log
        keys = StreamedKeys()

        def show(lines: list[str]) -> None:
            self._tell.output(label, keys.hide("\n".join(lines)))

        def skip(count: int) -> None:
            note = f"({size(count)} came too fast to be shown; they are in {log})"
            self._tell.output(label, note)

        self._watches.append(LogWatch(Path(log), show, on_skipped=skip))


def show_experiment(tell: Teller, progress: "ExperimentProgress") -> None:
    """Show notes and the services of each start; the count of answers is a status."""
    if progress.note:
        tell.say(progress.note)
    elif progress.event is not None:
        tell.say(f"{progress.start}  {event_line(progress.event)}")
    else:
        # A log that ends with 39/40 looks as if one answer never came.
        is_last = progress.answers + progress.failed == progress.requests
        show = tell.say if is_last else tell
        failed = f", {progress.failed} failed" if progress.failed else ""
        show(f"{progress.start}  {progress.answers}/{progress.requests} answers{failed}")


_WIDEST = max(map(len, Phase))


def restart_line(progress: "RestartProgress") -> str:
    """An event of the service or a step, behind its phase."""
    text = progress.text if progress.event is None else event_line(progress.event)
    title = f"{progress.title}  " if progress.title else ""
    return f"{title}{progress.phase:<{_WIDEST}}  {text}"


def show_wait(tell: Teller, progress: "WaitProgress") -> None:
    """Show the process, for how long it is waited for, and why it is not ready yet, as a status."""
    if progress.waited_s >= QUIET_S:
        answer = f": {progress.answer}" if progress.answer else ""
        tell(f"waiting for {progress.name}, {duration(progress.waited_s)}{answer}")
