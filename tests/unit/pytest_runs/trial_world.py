"""A world in which the chance that a trial fails is known, to run plans against."""

import random
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.pytest_runs.explanation import Conclusion
from ci_doctor.pytest_runs.trial import (
    BoundAddress,
    BudgetSpent,
    Ending,
    FlakyTrial,
    Suspect,
    TrialResult,
)
from ci_doctor.pytest_runs.trial_plan import explain

Chance = Callable[[FlakyTrial], float]
TARGET = "tests/test_z.py::test_target"


class Played(Struct, frozen=True, kw_only=True):
    """What a plan concluded, and its trials."""

    explanation: Conclusion
    trials: tuple[FlakyTrial, ...]


def names(count: int) -> tuple[str, ...]:
    """Tests that run before the target, all in its own file, so that no import matters."""
    return tuple(f"tests/test_z.py::test_{number}" for number in range(count))


def play(
    chance: Chance,
    *,
    before: tuple[str, ...] = (),
    dice: random.Random | None = None,
    shown: TrialResult | None = None,
    most: int | None = None,
) -> Played:
    """Run the plan for TARGET; `chance` is the probability that a trial fails.

    shown: what else each trial shows. most: the number of trials after which the time is over.
    """
    dice = dice or random.Random(1)
    plan = explain(Suspect(test=TARGET, before=before))
    trials: list[FlakyTrial] = []
    trial = next(plan)
    while True:
        try:
            if most is not None and len(trials) >= most:
                trial = plan.throw(BudgetSpent())
                continue
            trials.append(trial)
            is_failure = dice.random() < chance(trial)
            ending = Ending.FAILED if is_failure else Ending.PASSED
            trial = plan.send(replace(shown or TrialResult(ending=ending), ending=ending))
        except StopIteration as stop:
            return Played(explanation=stop.value, trials=tuple(trials))


def bound(port: int) -> TrialResult:
    """A result in which the target binds a fixed port."""
    address = BoundAddress(TARGET, "127.0.0.1", port)
    return TrialResult(ending=Ending.PASSED, bound=(address,))
