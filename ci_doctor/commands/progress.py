# SPDX-License-Identifier: Apache-2.0
"""Reads the ends of logs: the events of services, of an experiment, of a restart and of a wait in lines."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ci_doctor.commands.teller import Line, LineKind, Span, Teller
from ci_doctor.model.facts.restart_check import Phase
from ci_doctor.render.formatting import duration, size
from ci_doctor.render.layout import clip, pad
from ci_doctor.render.safe_text import one_line, printable
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
    parts = [event.service, _VERBS[event.kind], _process(event)]
    if event.duration_s is not None:
        time = duration(event.duration_s)
        parts.append(f"after {time}")
    if event.kind is EventKind.READY and event.url:
        parts.append(f"at {event.url}")
    parts.append(ending(event))
    line = " ".join(filter(None, parts))
    if event.kind is EventKind.DESCENDANT_DIED and not ending(event):
        # Only its parent learns that (wait(2)), and an old kernel tells nobody else.
        line += ", and how it ended is not known"
    return line


def _process(event: ServiceEvent) -> str | None:
    """Return the process that the event is about, if a reader needs it."""
    if event.name:
        return f"{event.name} (pid {event.pid})"
    if event.kind is EventKind.STARTED:
        return f"(pid {event.pid}, {event.log})"
    return None


def ending(event: ServiceEvent) -> str:
    """Return how a process ended: by which signal, or with which exit code.

    Empty if it did not end, or if nobody knows.
    """
    if event.signal:
        return f"by {event.signal}"
    if event.exit_code is not None:
        return f"with exit code {event.exit_code}"
    return ""


_TAIL_BYTES = 4096
_CUT_WORD = re.compile(r"^\S+")
_STARTING = "starting"
# The words and their colours, as readable on a dark terminal as on a light one.
_STATES = {
    EventKind.STARTED: (_STARTING, "33"),
    EventKind.READY: ("ready", "32"),
    EventKind.DIED: ("died", "31"),
    EventKind.STOPPING: ("stopping", "33"),
    EventKind.KILLED: ("killed", "31"),
    EventKind.STOPPED: ("stopped", "2"),
}


class ServiceRow:
    """One service: its state, for how long it has had it, and its end or its last log line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._state = "waiting"
        self._colour = "2"
        self._started_at: float | None = None
        self._duration_s: float | None = None
        self._pid = ""
        self._log: str | None = None
        self._end = ""

    def take(self, event: ServiceEvent) -> None:
        """Take note of the next event of this service."""
        if event.kind is EventKind.DESCENDANT_DIED:
            # The service itself goes on, so that its state stays.
            self._end = f"lost {event.name} (pid {event.pid}) {ending(event)}"
            return
        self._state, self._colour = _STATES[event.kind]
        self._duration_s = event.duration_s
        if event.kind is EventKind.STARTED:
            self._started_at = event.at
            self._duration_s = None
            self._pid = f"pid {event.pid}"
            self._log = event.log
        if event.kind in {EventKind.DIED, EventKind.STOPPED}:
            self._end = ending(event)

    def spans(self, now: float, widest: int) -> tuple[Span, ...]:
        """Return the line at `now` (monotonic seconds); the name takes `widest` cells."""
        name = pad(clip(self.name, widest), widest)
        # "starting" and "stopping" are the longest of the words.
        gap = " " * (len(_STARTING) - len(self._state))
        time = f"{self._time(now):>10}"
        pid = f"{self._pid:<11}"

        rest = f"{gap}  {time}  {pid}  {self._last()}"
        return Span(f"{name}  "), Span(self._state, self._colour), Span(rest)

    def _last(self) -> str:
        """How it ended, or its last log line while it has not ended."""
        if self._end or self._log is None:
            return self._end
        return _last_line(Path(self._log))

    def _time(self, now: float) -> str:
        """How long it took to reach its state; while it is starting, how long it has been."""
        if self._duration_s is not None:
            return duration(self._duration_s)
        if self._started_at is None or self._state != _STARTING:
            return ""
        return duration(now - self._started_at)


def _last_line(log: Path) -> str:
    """The last line of a log that is not blank.

    Empty if there is none or the log cannot be read.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - _TAIL_BYTES)
            file.seek(start)
            content = file.read(_TAIL_BYTES)
    except OSError:
        return ""
    text = content.decode(errors="replace")
    if start > 0:
        # The cut may go through a secret, and half a secret is not recognised.
        text = _CUT_WORD.sub("", text)
    for line in reversed(printable(text).split("\n")):
        if line.strip():
            return one_line(line)
    return ""


_NARROWEST_NAME = 8


class ServiceSource:
    """The source for the events of a group whose services are `names`.

    Plain lines count seconds from now.
    """

    remains = True

    def __init__(self, names: Sequence[str]) -> None:
        self._began = clock.now()
        self._rows = {name: ServiceRow(name) for name in names}

    def take(self, event: ServiceEvent) -> Iterator[Line]:
        """A terminal shows the event in its service's line."""
        row = self._rows.get(event.service or "")

        if row is not None:
            row.take(event)
        seconds = event.at - self._began
        text = event_line(event)
        yield Line(f"{seconds:7.1f} s  {text}", LineKind.LOG)

    def live(self, now: float, columns: int) -> Sequence[Sequence[Span]]:
        """One line for each service."""
        longest = max(map(len, self._rows), default=0)
        # A long name must leave room for what happens to its service.
        room = max(_NARROWEST_NAME, columns // 3)
        widest = min(longest, room)
        return [row.spans(now, widest) for row in self._rows.values()]


# One for each service in turn, readable on a dark terminal and on a light one.
_COLOURS = ("36", "33", "35", "32", "34", "91")


class ServiceOutput:
    """Call it with each event of a group, inside `with` and inside an event loop."""

    def __init__(self, names: Sequence[str], tell: Teller[Any]) -> None:
        self._labels: dict[str, Span] = {}
        widest = max(map(len, names))
        # More services than colours share them in turn.
        for name, colour in zip(names, itertools.cycle(_COLOURS), strict=False):
            padded = name.ljust(widest)
            self._labels[name] = Span(f"{padded} | ", colour)
        self._tell = tell
        self._watches: list[LogWatch] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for watch in self._watches:
            watch.close()

    def __call__(self, event: ServiceEvent) -> None:
        """Follow the log of a service that has started."""
        if event.kind is not EventKind.STARTED or event.log is None or event.service is None:
            return
        label = self._labels[event.service]
        log = event.log
        keys = StreamedKeys()

        def show(lines: list[str]) -> None:
            text = "\n".join(lines)
            self._tell.output(label, keys.hide(text))

        def skip(count: int) -> None:
            note = f"({size(count)} came too fast to be shown; they are in {log})"
            self._tell.output(label, note)

        watch = LogWatch(Path(log), show, on_skipped=skip)
        self._watches.append(watch)


class ExperimentSource:
    """The source for an experiment: its notes, the services of each start, the count of answers."""

    remains = False

    def __init__(self) -> None:
        self._status = ""

    def take(self, event: "ExperimentProgress") -> Iterator[Line]:
        """Return kept lines for notes and services; the count of answers is a status."""
        self._status = ""
        if event.note:
            yield Line(event.note)
        elif event.event is not None:
            text = event_line(event.event)
            yield Line(f"{event.start}  {text}")
        else:
            self._status = f"{event.start}  {event.answers}/{event.requests} answers"
            kind = LineKind.STATUS
            if event.answers == event.requests:
                # A log that ends with 39/40 looks as if one answer never came.
                kind = LineKind.LOG
            yield Line(self._status, kind)

    def live(self, _now: float, _columns: int) -> Sequence[Sequence[Span]]:
        """Return the count of answers as a live line."""
        if not self._status:
            return []
        return [[Span(self._status)]]


_WIDEST = max(map(len, Phase))


class RestartSource:
    """The source for a restart check: events of the service and steps, each behind its phase."""

    remains = False

    def take(self, event: "RestartProgress") -> Iterator[Line]:
        """All of it stays: some ten lines, which are the story of the check."""
        text = event.text
        if event.event is not None:
            text = event_line(event.event)
        yield Line(f"{event.phase:<{_WIDEST}}  {text}")

    def live(self, _now: float, _columns: int) -> Sequence[Sequence[Span]]:
        """Nothing."""
        return ()


_QUIET_S = 2.0  # a wait that ends sooner needs no word


class WaitSource:
    """The source for a wait: the process, for how long, and why it is not ready yet."""

    remains = False

    def __init__(self) -> None:
        self._status = ""

    def take(self, event: "WaitProgress") -> Iterator[Line]:
        """Return the status, once the wait is long enough to show one."""
        if event.waited_s < _QUIET_S:
            return
        self._status = f"waiting for {event.name}, {duration(event.waited_s)}"
        if event.answer:
            self._status += f": {event.answer}"
        yield Line(self._status, LineKind.STATUS)

    def live(self, _now: float, _columns: int) -> Sequence[Sequence[Span]]:
        """Return the status as a live line."""
        if not self._status:
            return []
        return [[Span(self._status)]]
