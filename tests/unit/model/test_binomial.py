"""Exact limits of a rate, and the tail of the distribution."""

from math import comb

import pytest

from ci_doctor.model.binomial import lower_limit, upper_limit, upper_tail


@pytest.mark.parametrize("trials", [1, 20, 59, 1000])
def test_without_an_event_the_limit_has_a_closed_form(trials: int) -> None:
    assert upper_limit(0, trials, 0.05) == pytest.approx(1 - 0.05 ** (1 / trials))


def test_the_limits_agree_with_published_ones() -> None:
    # The exact 95 % interval of 10 in 50, as R's binom.test(10, 50) prints it.
    assert lower_limit(10, 50, 0.025) == pytest.approx(0.1003022, abs=1e-6)
    assert upper_limit(10, 50, 0.025) == pytest.approx(0.3371831, abs=1e-6)


def test_nothing_is_excluded_without_a_trial_that_speaks_for_it() -> None:
    assert upper_limit(0, 0, 0.05) == 1.0
    assert upper_limit(3, 3, 0.05) == 1.0
    assert lower_limit(0, 3, 0.05) == 0.0


@pytest.mark.parametrize(("hits", "trials", "rate"), [(3, 10, 0.1), (10, 10, 0.5), (1, 40, 0.01)])
def test_the_upper_tail_is_the_sum_of_the_terms(hits: int, trials: int, rate: float) -> None:
    exact = sum(
        comb(trials, each) * rate**each * (1 - rate) ** (trials - each)
        for each in range(hits, trials + 1)
    )

    assert upper_tail(hits, trials, rate) == pytest.approx(exact)


def test_the_ends_of_the_upper_tail_are_certain() -> None:
    assert upper_tail(0, 5, 0.5) == 1
    assert upper_tail(6, 5, 0.5) == 0
    assert upper_tail(1, 5, 0) == 0
    assert upper_tail(5, 5, 1) == 1
