# SPDX-License-Identifier: Apache-2.0
"""Reads the clock: makes the trials of a plan until it concludes, or until its time is over."""

from collections.abc import Callable
from typing import Final, Protocol

from ci_doctor.pytest_runs.explain.explanation import (
    ExplainedSuspect,
    Explanation,
    explained_by,
)
from ci_doctor.pytest_runs.explain.plan import explain
from ci_doctor.pytest_runs.explain.suspect import Suspect
from ci_doctor.pytest_runs.explain.trial import BudgetSpent, Ending, FlakyTrial, TrialResult
from ci_doctor.system import clock

# The rest of the time is for plain runs: if nothing is found, they tell how often it fails.
_SEARCH_SHARE: Final = 0.75


class MakesTrials(Protocol):
    """Makes a trial; a failure by another exception class than `error` is not the suspect's."""

    def run(self, trial: FlakyTrial, error: str | None) -> TrialResult:
        """The result of `trial`."""
        ...


def explained(
    suspect: Suspect,
    runner: MakesTrials,
    budget_s: float,
    say: Callable[[int], None] = lambda _number: None,
    is_over: Callable[[], bool] = lambda: False,
) -> ExplainedSuspect:
    """Explain `suspect` in about `budget_s` seconds: the trial that runs at the end is finished.

    `say` gets the number of each trial before it begins. No trial begins once `is_over` is true.
    """
    began = clock.now()
    plan = explain(suspect)
    deadlines = [began + _SEARCH_SHARE * budget_s, began + budget_s]
    ended: list[tuple[FlakyTrial, Ending]] = []
    trial = next(plan)
    while True:
        try:
            if deadlines and (is_over() or clock.now() >= deadlines[0]):
                del deadlines[0]
                trial = plan.throw(BudgetSpent())
                continue
            say(len(ended) + 1)
            result = runner.run(trial, suspect.error)
            ended.append((trial, result.ending))
            trial = plan.send(result)
        except StopIteration as stop:
            explanation: Explanation = stop.value
            return explained_by(explanation, ended, clock.now() - began)
