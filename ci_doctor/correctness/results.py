# SPDX-License-Identifier: Apache-2.0
"""What an experiment leaves behind, as values."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.compare import Start
from ci_doctor.services.outcome import ServiceFailure


class Ending(StrEnum):
    """Why no further start was made."""

    COMPLETE = "complete"
    BUDGET = "budget"
    SIGINT = "SIGINT"
    SIGTERM = "SIGTERM"
    SIGHUP = "SIGHUP"
    SIGQUIT = "SIGQUIT"


class StartResult(Struct, frozen=True, kw_only=True):
    """One start: what it answered (`start`), what went wrong (`failure`), and how long it took in seconds.

    `digests` leads from a request to its outputs by pass, and `errors` to its first error. `killed` names the processes
    that needed SIGKILL. One that was `cut_short` by the budget or a signal is no evidence.
    """

    start: Start
    failure: ServiceFailure | None
    duration_s: float
    logs: tuple[Path, ...]
    digests: Mapping[str, Mapping[int, str]]
    errors: Mapping[str, str]
    killed: tuple[str, ...] = ()
    cut_short: bool = False


class Experiment(Struct, frozen=True, kw_only=True):
    """The starts in the order in which they were made, every output (as canonical JSON) by its digest, and why it ended."""

    results: tuple[StartResult, ...]
    outputs: Mapping[str, bytes]
    ending: Ending

    @property
    def starts(self) -> tuple[Start, ...]:
        """What each start answered that was not cut short."""
        return tuple(result.start for result in self.results if not result.cut_short)
