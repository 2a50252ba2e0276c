"""How few trials find the candidates that are enough."""

import math

import hypothesis
from hypothesis import strategies

from ci_doctor.pytest_runs.trial import Ending, FlakyTrial, Search, TrialResult, one_of, some_of

CANDIDATES = tuple(f"c{number}" for number in range(64))


def trial_of(candidates: tuple[str, ...]) -> FlakyTrial:
    return FlakyTrial(target="t", before=candidates)


def searched(search: Search, needed: set[str]) -> tuple[tuple[str, ...], int]:
    """What the search finds if all of `needed` are needed, and after how many trials.

    No candidates may be tried twice.
    """
    trials = 0
    tried: set[tuple[str, ...]] = set()
    try:
        trial = next(search)
        while True:
            trials += 1
            assert trial.before not in tried
            tried.add(trial.before)
            is_enough = needed <= set(trial.before)
            ending = Ending.FAILED if is_enough else Ending.PASSED
            trial = search.send(TrialResult(ending=ending))
    except StopIteration as stop:
        return stop.value, trials


@hypothesis.given(
    strategies.integers(1, 64).flatmap(
        lambda n: strategies.tuples(strategies.just(n), strategies.integers(0, n - 1))
    )
)
def test_one_candidate_is_found_in_log2_trials(case: tuple[int, int]) -> None:
    count, place = case

    found, trials = searched(
        one_of(CANDIDATES[:count], trial_of, Ending.FAILED), {CANDIDATES[place]}
    )

    assert found == (CANDIDATES[place],)
    assert trials <= math.ceil(math.log2(count))


@hypothesis.given(strategies.sets(strategies.sampled_from(CANDIDATES), min_size=1, max_size=4))
def test_candidates_that_are_needed_together_are_found_without_another(needed: set[str]) -> None:
    found, _ = searched(some_of(CANDIDATES, trial_of, Ending.FAILED), needed)

    assert set(found) == needed
