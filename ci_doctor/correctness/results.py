# SPDX-License-Identifier: Apache-2.0
"""What an experiment leaves behind, as values. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from ci_doctor.correctness.comparison import Comparison
from ci_doctor.correctness.proof_reading import ProofReading
from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.shared_use import SharedUse
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.model.service import LeftBehind, ServiceFailure


class ExperimentEnding(StrEnum):
    """Why no further start was made."""

    COMPLETE = "complete"
    BUDGET = "budget"
    SIGINT = "SIGINT"
    SIGTERM = "SIGTERM"
    SIGHUP = "SIGHUP"
    SIGQUIT = "SIGQUIT"

    @property
    def is_signal(self) -> bool:
        """Whether a signal ended it."""
        return self not in {ExperimentEnding.COMPLETE, ExperimentEnding.BUDGET}


class StartResult(Struct, frozen=True, kw_only=True):
    """One start: its answers (`start`), its `failure`, and its duration in seconds.

    `digests` leads from a request to its outputs by pass, and `errors` to its first error.
    `throttled` counts requests that were answered only after an HTTP 429. `killed` names the
    processes that needed SIGKILL; `not_released` what was still in use after the stop,
    `left_behind` what stayed on the machine. `facts` are what was loaded and effective while it ran. `cached` counts the files that it added to the
    compile caches (0: they were warm). A start that was `cut_short` by the budget or a signal is no
    evidence, and neither is the `warm_up`. `proof` is what was read of the arm's proof, `shared` what it
    did with files that both arms reach.
    """

    start: ArmStart
    failure: ServiceFailure | None
    duration_s: float
    logs: tuple[Path, ...]
    digests: Mapping[str, Mapping[int, str]]
    errors: Mapping[str, str]
    killed: tuple[str, ...] = ()
    not_released: tuple[str, ...] = ()
    left_behind: LeftBehind = LeftBehind()
    throttled: int = 0
    facts: Mapping[str, str] = {}
    cached: int | None = None
    cut_short: bool = False
    warm_up: bool = False
    proof: tuple[ProofReading, ...] = ()
    shared: SharedUse = SharedUse()

    @property
    def counts(self) -> bool:
        """Whether its answers are evidence."""
        return not self.cut_short and not self.warm_up


class Experiment(Struct, frozen=True, kw_only=True):
    """The starts in the order in which they were made, and every output by its digest.

    `archived` are the baseline starts of earlier builds that stand beside them. `comparison` is the
    gate's: the answers of each start are outcomes at its level. `deadline` is the monotonic time that
    the first start left for the rest; None if it is the plan's own.
    """

    results: tuple[StartResult, ...]
    outputs: Mapping[str, Mapping[str, Any]]
    ending: ExperimentEnding
    rules: Rules = Rules()
    comparison: Comparison = Comparison()
    archived: tuple[StartResult, ...] = ()
    deadline: float | None = None

    @property
    def compared(self) -> tuple[StartResult, ...]:
        """Every start whose answers are evidence, archived ones first."""
        return (*self.archived, *(result for result in self.results if result.counts))

    @property
    def starts(self) -> tuple[ArmStart, ...]:
        """The answers of each of them."""
        return tuple(result.start for result in self.compared)
