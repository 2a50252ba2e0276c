# SPDX-License-Identifier: Apache-2.0
"""Pure. The steps of some work in lines: the runs of an import race, the checks of a shim."""

from collections.abc import Iterator, Sequence

from ci_doctor.commands.telling.line import Line, LineKind, Span


class StepSource:
    """The source for steps whose names are shown before they begin.

    `kind` is `KEPT` if a step may take minutes or its program writes to the same terminal, and
    `STATUS` if the steps are short.
    """

    remains = False

    def __init__(self, kind: LineKind) -> None:
        self._kind = kind
        self._step = ""

    def take(self, event: str) -> Iterator[Line]:
        """Return the line of the next step."""
        self._step = event
        yield Line(event, self._kind)

    def live(self, _now: float, _columns: int) -> Sequence[Sequence[Span]]:
        """Return the current step as a live line; no line if the steps are kept."""
        if not self._step or self._kind is not LineKind.STATUS:
            return []
        return [[Span(self._step)]]
