# SPDX-License-Identifier: Apache-2.0
"""Pure. The progress of an experiment of two arms in lines."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ci_doctor.commands.telling.event_line import event_line
from ci_doctor.commands.telling.line import Line, LineKind, Span

if TYPE_CHECKING:
    from ci_doctor.correctness.attempt import ExperimentProgress


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
