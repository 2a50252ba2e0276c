# SPDX-License-Identifier: Apache-2.0
"""Pure. What `wait` waits for in lines."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ci_doctor.commands.telling.line import Line, LineKind, Span
from ci_doctor.render.formatting import duration

if TYPE_CHECKING:
    from ci_doctor.services.wait import WaitProgress

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
