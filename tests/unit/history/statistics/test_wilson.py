import pytest

from ci_doctor.history.statistics import wilson


def test_it_gives_the_published_interval() -> None:
    # Newcombe 1998, Statist. Med. 17:857-872, table I, method 3.
    interval = wilson(81, 263)
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.2553, 0.3662)
    interval = wilson(1, 29)
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.0061, 0.1718)


@pytest.mark.parametrize("trials", [1, 10, 100_000])
def test_its_ends_are_rates(trials: int) -> None:
    assert wilson(0, trials).low == 0
    assert wilson(trials, trials).high == 1
    assert 0 < wilson(0, trials).high < 1


def test_without_a_trial_nothing_is_known() -> None:
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0, 1)
