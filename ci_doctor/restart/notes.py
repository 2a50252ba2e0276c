# SPDX-License-Identifier: Apache-2.0
"""Keeps what is observed during a check, and reports it as it happens. Pure."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from ci_doctor.restart.ledger import Ledger
from ci_doctor.restart.observed import Observation, Phase, RestartEnding
from ci_doctor.services.outcome import ServiceEvent

if TYPE_CHECKING:
    from ci_doctor.machine.gpus import GpuMemory
    from ci_doctor.restart.named_memory import NamedMemory


class RestartProgress(Struct, frozen=True, kw_only=True):
    """An event of a service, or how far a phase has come, in words."""

    phase: Phase
    event: ServiceEvent | None = None
    text: str = ""


class Notes:
    """The observation so far, and the requests in `ledger`. `phase` is what is going on.

    `gpu_before` is what the GPUs held before anything was started, `memory_before` the shared memory
    with a name; None if they are not checked.
    """

    def __init__(
        self, requests: int, on_progress: Callable[[RestartProgress], None], *, compare: bool
    ) -> None:
        self.phase = Phase.BASELINE
        self.gpu_before: tuple[GpuMemory, ...] | None = None
        self.memory_before: NamedMemory | None = None
        self.ledger = Ledger(compare=compare)
        self._observation = Observation(requests=requests)
        self._on_progress = on_progress

    def note(self, **fields: Any) -> None:
        """Set fields of the observation."""
        self._observation = structs.replace(self._observation, **fields)

    def say(self, text: str) -> None:
        """Report how far the phase has come."""
        self._on_progress(RestartProgress(phase=self.phase, text=text))

    def event(self, event: ServiceEvent) -> None:
        """Report an event of a service."""
        self._on_progress(RestartProgress(phase=self.phase, event=event))

    def observation(self, ending: RestartEnding) -> Observation:
        """All of it."""
        # Only now, and not with each reply: a load has thousands of them.
        ledger = self.ledger
        return structs.replace(
            self._observation,
            ending=ending,
            phases=ledger.counts,
            different=tuple(ledger.different),
            different_count=ledger.different_count,
            unstable=ledger.unstable,
            answers=ledger.book.comparison(),
        )
