# SPDX-License-Identifier: Apache-2.0
"""Pure. The phases of a restart check in lines."""

from collections.abc import Iterator, Sequence

from ci_doctor.commands.telling.event_line import event_line
from ci_doctor.commands.telling.line import Line, Span
from ci_doctor.model.facts.restart_check import Phase
from ci_doctor.restart.answers import RestartProgress

_WIDEST = max(map(len, Phase))


class RestartSource:
    """The source for a restart check: events of the service and steps, each behind its phase."""

    remains = False

    def take(self, event: RestartProgress) -> Iterator[Line]:
        """All of it stays: some ten lines, which are the story of the check."""
        text = event.text
        if event.event is not None:
            text = event_line(event.event)
        yield Line(f"{event.phase:<{_WIDEST}}  {text}")

    def live(self, _now: float, _columns: int) -> Sequence[Sequence[Span]]:
        """Nothing."""
        return ()
