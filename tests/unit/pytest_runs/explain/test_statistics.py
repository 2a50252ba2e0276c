"""The exact test, and the order of the runs."""

from itertools import pairwise

import pytest

from ci_doctor.pytest_runs.trial import (
    LEVEL,
    MORE_PAIRS,
    PAIRS,
    WRONG_KIND_AT_MOST,
    fisher,
    schedule,
)


def test_fishers_test_agrees_with_a_table() -> None:
    # Fisher's tea tasting: three of four cups right, both ways.
    assert fisher(3, 1, 4) == pytest.approx(17 / 70)
    assert fisher(4, 0, 4) == pytest.approx(1 / 70)


@pytest.mark.parametrize("pairs", [PAIRS, MORE_PAIRS])
def test_both_conditions_have_as_many_runs(pairs: int) -> None:
    assert sum(schedule(pairs)) == pairs


def test_the_runs_do_not_take_strict_turns() -> None:
    assert any(one == other for one, other in pairwise(schedule(PAIRS)))


def test_no_rate_of_chance_failures_passes_a_confirmation_more_often_than_promised() -> None:
    rates = [number / 100 for number in range(101)]
    strict = max(rate**PAIRS * (1 - rate) ** PAIRS for rate in rates)

    assert strict == 2.0 ** (-2 * PAIRS)
    assert 16 * (strict + LEVEL) == pytest.approx(WRONG_KIND_AT_MOST)
