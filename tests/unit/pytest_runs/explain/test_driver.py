"""The time of a plan, and what is said of it."""

from ci_doctor.pytest_runs.explaining import explained
from ci_doctor.pytest_runs.explanation import FlakyKind
from ci_doctor.pytest_runs.trial import Ending, FlakyTrial, Suspect, TrialResult


class Runner:
    def __init__(self, ending: Ending) -> None:
        self.ending = ending

    def run(self, trial: FlakyTrial, error: str | None) -> TrialResult:
        ending = self.ending if trial.zone == "Etc/GMT-14" else Ending.PASSED
        return TrialResult(ending=ending)


def test_every_trial_is_announced_and_counted() -> None:
    numbers: list[int] = []

    found = explained(
        Suspect(test="t"),
        Runner(Ending.FAILED),
        1000,
        numbers.append,
    )

    assert found.explanation.kind is FlakyKind.TIME_ZONE
    assert numbers == list(range(1, found.trials + 1))


def test_no_time_at_all_makes_no_trial() -> None:
    found = explained(Suspect(test="t"), Runner(Ending.PASSED), 0)

    assert found.trials == 0
    assert found.explanation.kind is None


def test_after_an_interruption_no_trial_begins() -> None:
    numbers: list[int] = []

    explained(
        Suspect(test="t"),
        Runner(Ending.FAILED),
        1000,
        numbers.append,
        is_over=lambda: len(numbers) >= 3,
    )

    assert numbers == [1, 2, 3]
