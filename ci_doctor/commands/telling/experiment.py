# SPDX-License-Identifier: Apache-2.0
"""Pure. The progress of an experiment of two arms in lines."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ci_doctor.commands.telling.event_line import event_line
from ci_doctor.commands.telling.line import Line, LineKind, Span

if TYPE_CHECKING:
    from ci_doctor.correctness.attempt import Progress


class ExperimentSource:
    """The source for an experiment: its notes, the services of each start, and how many answers there are."""

    remains = False

    def __init__(self) -> None:
        self._status = ""

    def take(self, event: "Progress") -> Iterator[Line]:
        """Notes and services stay; answers are a status, the last of a start goes into every log."""
        self._status = ""
        if event.note:
            yield Line(event.note)
        elif event.event is not None:
            yield Line(f"{event.start}  {event_line(event.event)}")
        else:
            self._status = f"{event.start}  {event.answers}/{event.asked} answers"
            is_last = event.answers == event.asked
            yield Line(self._status, LineKind.LOG if is_last else LineKind.STATUS)

    def live(self, now: float, columns: int) -> Sequence[Sequence[Span]]:  # noqa: ARG002
        """The answers of the start that is under way."""
        return [[Span(self._status)]] if self._status else []
