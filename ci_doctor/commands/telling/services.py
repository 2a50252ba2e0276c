# SPDX-License-Identifier: Apache-2.0
"""Reads the ends of logs: a live line for each service, or a plain line for each event."""

from collections.abc import Iterator, Sequence

from ci_doctor.commands.telling.event_line import event_line
from ci_doctor.commands.telling.line import Line, LineKind, Span
from ci_doctor.commands.telling.service_row import ServiceRow
from ci_doctor.services.instance import ServiceEvent
from ci_doctor.system import clock

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
