# SPDX-License-Identifier: Apache-2.0
"""Pure. The steps of some work in lines: the runs of an import race, the checks of a shim."""

from collections.abc import Iterator, Sequence

from ci_doctor.commands.telling.line import Line, LineKind, Span


class StepSource:
    """The source for steps that are told in words before they begin.

    Take `KEPT` if a step may take minutes or its program writes to the same terminal; `STATUS` if they are short.
    """

    remains = False

    def __init__(self, kind: LineKind) -> None:
        self._kind = kind
        self._step = ""

    def take(self, event: str) -> Iterator[Line]:
        """The next step."""
        self._step = event
        yield Line(event, self._kind)

    def live(self, _now: float, _columns: int) -> Sequence[Sequence[Span]]:
        """The step that is under way, if it is not kept."""
        if not self._step or self._kind is not LineKind.STATUS:
            return []
        return [[Span(self._step)]]
