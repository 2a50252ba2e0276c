"""Exact limits of a rate."""

import pytest

from ci_doctor.model.binomial import lower_limit, upper_limit


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
