# SPDX-License-Identifier: Apache-2.0
"""Reads the end of one service's log: its state as one live line."""

import os
import re
from pathlib import Path

from ci_doctor.commands.telling.event_line import ending
from ci_doctor.commands.telling.line import Span
from ci_doctor.render.formatting import duration
from ci_doctor.render.layout import clip, pad
from ci_doctor.render.safe_text import one_line, printable
from ci_doctor.services.instance import EventKind, ServiceEvent

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
