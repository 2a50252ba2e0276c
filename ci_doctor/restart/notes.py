# SPDX-License-Identifier: Apache-2.0
"""Keeps what is seen during a check, and tells of it as it happens. Pure."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from ci_doctor.restart.ledger import Ledger
from ci_doctor.restart.observed import Observation, Phase, RestartEnding
from ci_doctor.services.outcome import ServiceEvent

if TYPE_CHECKING:
    from ci_doctor.system.gpu_memory import GpuMemory


class RestartProgress(Struct, frozen=True, kw_only=True):
    """Something happened: an event of a service, or a phase has come so far (in words)."""

    phase: Phase
    event: ServiceEvent | None = None
    text: str = ""


class Notes:
    """What is known so far: `seen`, and the requests in `ledger`. `phase` is what is going on.

    `gpu_before` is what the GPUs held before anything was started; None where they are not looked at.
    """

    def __init__(
        self, asked: int, on_progress: Callable[[RestartProgress], None], *, compare: bool
    ) -> None:
        self.phase = Phase.BASELINE
        self.gpu_before: tuple[GpuMemory, ...] | None = None
        self.ledger = Ledger(compare=compare)
        self._seen = Observation(asked=asked)
        self._on_progress = on_progress

    def note(self, **seen: Any) -> None:
        """Fields of the observation."""
        self._seen = structs.replace(self._seen, **seen)

    def say(self, text: str) -> None:
        """Tell of the phase."""
        self._on_progress(RestartProgress(phase=self.phase, text=text))

    def event(self, event: ServiceEvent) -> None:
        """Tell of a service."""
        self._on_progress(RestartProgress(phase=self.phase, event=event))

    def observation(self, ending: RestartEnding) -> Observation:
        """All of it."""
        ledger = self.ledger
        return structs.replace(
            self._seen,
            ending=ending,
            phases=ledger.counts,
            different=tuple(ledger.different),
            different_count=ledger.different_count,
            unstable=ledger.unstable,
        )
