from math import comb

import pytest

from ci_doctor.history.statistics.binomial import upper_tail


@pytest.mark.parametrize(("hits", "trials", "rate"), [(3, 10, 0.1), (10, 10, 0.5), (1, 40, 0.01)])
def test_it_is_the_sum_of_the_terms(hits: int, trials: int, rate: float) -> None:
    exact = sum(
        comb(trials, each) * rate**each * (1 - rate) ** (trials - each)
        for each in range(hits, trials + 1)
    )

    assert upper_tail(hits, trials, rate) == pytest.approx(exact)


def test_its_ends_are_certain() -> None:
    assert upper_tail(0, 5, 0.5) == 1
    assert upper_tail(6, 5, 0.5) == 0
    assert upper_tail(1, 5, 0) == 0
    assert upper_tail(5, 5, 1) == 1
