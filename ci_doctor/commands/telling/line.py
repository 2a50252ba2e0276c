# SPDX-License-Identifier: Apache-2.0
"""Pure. What a source of progress gives to the teller: lines that stay, and spans of live ones."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

from msgspec import Struct

EventT_contra = TypeVar("EventT_contra", contravariant=True)


class LineKind(StrEnum):
    """Where a line is shown.

    `KEPT`: everywhere. `LOG`: in plain lines only, because a terminal shows the same thing live.
    `STATUS`: how things stand now; live on a terminal, and once in a while in plain lines.
    """

    KEPT = "kept"
    LOG = "log"
    STATUS = "status"


class Line(Struct, frozen=True):
    """One line of plain text. The teller clips it, redacts it and removes escape sequences."""

    text: str
    kind: LineKind = LineKind.KEPT


class Span(Struct, frozen=True):
    """A piece of a live line.

    `colour` is an SGR parameter of ECMA-48 ("32" is green), empty for none.
    """

    text: str
    colour: str = ""


class ProgressSource(Protocol[EventT_contra]):
    """Turns the events of one room into lines."""

    @property
    def remains(self) -> bool:
        """Whether its live lines stay on the terminal at the end."""

    def take(self, event: EventT_contra) -> Iterable[Line]:
        """Process `event` and return its lines."""

    def live(self, now: float, columns: int, /) -> Sequence[Sequence[Span]]:
        """Return the live lines at `now` (monotonic seconds) for a terminal of `columns` cells."""
