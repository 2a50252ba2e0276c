# SPDX-License-Identifier: Apache-2.0
"""What the trials of one suspect show: a kind with its culprit, or how often it fails. Pure."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.pytest_runs.explain.kinds import FlakyKind
from ci_doctor.pytest_runs.explain.trial import Ending, FlakyTrial


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a test is flaky.

    kind: None if no condition decides how it ends. culprit: the test, the condition or the address
    that decides it. left: a sentence for each thing that the culprit leaves and that matters.
    cause ends as `expected`, and control in the opposite way. plain_runs: trials alone, with
    nothing controlled; plain_failures of them failed. is_searched: each condition was tried, and each item that the
    culprit leaves; otherwise the time was over before. reason: why nothing could be tried.
    """

    test: str
    kind: FlakyKind | None = None
    culprit: str = ""
    left: tuple[str, ...] = ()
    cause: FlakyTrial | None = None
    control: FlakyTrial | None = None
    expected: Ending = Ending.FAILED
    plain_runs: int = 0
    plain_failures: int = 0
    is_searched: bool = True
    reason: str | None = None


class TrialTally(Struct, frozen=True, kw_only=True):
    """How many trials were made under one condition, and how their target ended. The others did neither."""

    runs: int = 0
    passed: int = 0
    failed: int = 0


class ExplainedSuspect(Struct, frozen=True, kw_only=True):
    """An explanation, the number of trials behind it, and their time in seconds.

    alone: the trials with nothing but seeds controlled. with_cause, without: those under the condition
    that decides, and under its control; empty without a kind.
    """

    explanation: Explanation
    trials: int
    duration_s: float
    alone: TrialTally = TrialTally()
    with_cause: TrialTally = TrialTally()
    without: TrialTally = TrialTally()


def explained_by(
    explanation: Explanation, ended: Sequence[tuple[FlakyTrial, Ending]], duration_s: float
) -> ExplainedSuspect:
    """`explanation` with what the trials that `ended` add up to."""
    keeps_seed = explanation.kind is FlakyKind.RANDOM_SEED
    keeps_hash_seed = explanation.kind is FlakyKind.HASH_SEED

    def condition(trial: FlakyTrial) -> FlakyTrial:
        # A fixed seed makes a run repeatable, and is a condition only of these two kinds.
        return replace(
            trial,
            seed=trial.seed if keeps_seed else None,
            hash_seed=trial.hash_seed if keeps_hash_seed else None,
        )

    def tally(wanted: FlakyTrial | None) -> TrialTally:
        if wanted is None:
            return TrialTally()
        endings = [ending for trial, ending in ended if condition(trial) == condition(wanted)]
        return _tally(endings)

    return ExplainedSuspect(
        explanation=explanation,
        trials=len(ended),
        duration_s=duration_s,
        alone=_tally([ending for trial, ending in ended if trial.is_alone]),
        with_cause=tally(explanation.cause),
        without=tally(explanation.control),
    )


def _tally(endings: Sequence[Ending]) -> TrialTally:
    return TrialTally(
        runs=len(endings),
        passed=endings.count(Ending.PASSED),
        failed=endings.count(Ending.FAILED),
    )
