# SPDX-License-Identifier: Apache-2.0
"""Reads the ends of logs: the state of each service as one line of a terminal."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ci_doctor.render.layout import clip, pad
from ci_doctor.render.safe_text import one_line, printable
from ci_doctor.services.outcome import EventKind, ServiceEvent

_TAIL_BYTES = 4096
_WAITING = "waiting"
_STATES = {
    EventKind.STARTED: ("starting", "33"),
    EventKind.READY: ("ready", "32"),
    EventKind.DIED: ("died", "31"),
    EventKind.STOPPING: ("stopping", "33"),
    EventKind.KILLED: ("killed", "31"),
    EventKind.STOPPED: ("stopped", "2"),
}
_WIDEST_STATE = len("starting")


class _Row:
    """One service: its state since `at`, in seconds, and where it writes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state, self.colour = _WAITING, "2"
        self.at: float | None = None
        self.took_s: float | None = None
        self.pid: int | None = None
        self.log: Path | None = None
        self.told: str | None = None

    def take(self, event: ServiceEvent) -> None:
        """The next event of this service."""
        if event.kind is EventKind.STARTED:
            self.at, self.pid, self.log = (
                event.at,
                event.pid,
                Path(event.log) if event.log else None,
            )
        if event.kind is EventKind.DESCENDANT_DIED:
            self.told = f"lost {event.name} (pid {event.pid}) by {event.signal or f'exit code {event.exit_code}'}"
            return
        self.state, self.colour = _STATES[event.kind]
        self.took_s = None if event.kind is EventKind.STARTED else event.duration_s
        if event.kind in {EventKind.DIED, EventKind.STOPPED}:
            ending = event.signal or (
                f"exit code {event.exit_code}" if event.exit_code is not None else None
            )
            self.told = f"by {ending}" if event.signal else (ending and f"with {ending}")

    def seconds(self, now: float) -> str:
        """How long it has been starting, or took to become what it is."""
        if self.took_s is not None:
            return f"{self.took_s:.1f} s"
        return f"{now - self.at:.1f} s" if self.at is not None and self.state == "starting" else ""


class LiveBlock:
    """The lines of all services; `is_busy` while one is neither ready nor at its end."""

    def __init__(self, names: Sequence[str], *, colour: bool, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._rows = {name: _Row(name) for name in names}
        self._colour = colour

    @property
    def is_busy(self) -> bool:
        """Whether seconds are being counted."""
        return any(row.state == "starting" for row in self._rows.values())

    def take(self, event: ServiceEvent) -> None:
        """Note an event."""
        if event.service in self._rows:
            self._rows[event.service].take(event)

    def lines(self, now: float, width: int) -> list[str]:
        """One line of at most `width` cells for each service; `now` is monotonic seconds."""
        widest = min(max(map(len, self._rows), default=0), max(8, width // 3))
        return [self._line(row, now, width, widest) for row in self._rows.values()]

    def _line(self, row: _Row, now: float, width: int, widest: int) -> str:
        name = pad(clip(row.name, widest), widest)
        state = row.state.ljust(_WIDEST_STATE)
        pid = f"pid {row.pid}" if row.pid is not None else ""
        last = row.told or (self._redact(_last_line(row.log)) if row.log else "")
        text = clip(f"{name}  {state}  {row.seconds(now):>8}  {pid:<11}  {last}".rstrip(), width)
        start = len(name) + 2
        if not self._colour or len(text) < start + len(row.state):
            return text
        end = start + len(row.state)
        return f"{text[:start]}\x1b[{row.colour}m{text[start:end]}\x1b[0m{text[end:]}"


def _last_line(log: Path) -> str:
    """The last line of a log that says something; empty where there is none or it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(-min(_TAIL_BYTES, file.seek(0, os.SEEK_END)), os.SEEK_END)
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
    lines = [line for line in printable(text).split("\n") if line.strip()]
    return one_line(lines[-1]) if lines else ""
