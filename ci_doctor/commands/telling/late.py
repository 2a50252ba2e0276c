# SPDX-License-Identifier: Apache-2.0
"""Acts on stderr: a teller that comes only if the work is still going on after two seconds."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

from ci_doctor.system import clock

if TYPE_CHECKING:
    from ci_doctor.commands.telling.teller import Teller

_QUIET_S = 2.0


class LateTeller:
    """As a Teller of steps, which it loads late: asyncio costs as much as a short diagnosis."""

    def __init__(self) -> None:
        self._due = clock.now() + _QUIET_S
        self._teller: Teller[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._teller is not None:
            self._teller.__exit__(kind, error, trace)

    def __call__(self, step: str) -> None:
        """Show `step`, if two seconds have passed."""
        if clock.now() < self._due:
            return
        if self._teller is None:
            from ci_doctor.commands.telling.line import LineKind
            from ci_doctor.commands.telling.steps import StepSource
            from ci_doctor.commands.telling.teller import Teller

            self._teller = Teller(
                StepSource(LineKind.STATUS), group="ci-doctor: progress"
            ).__enter__()
        self._teller(step)
