# SPDX-License-Identifier: Apache-2.0

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.history.statistics import change_point, wilson


def runs(failures: str) -> list[tuple[int, int]]:
    """`..x.`: a commit a character, of which an `x` failed."""
    return [(int(each != "x"), int(each == "x")) for each in failures]


def test_a_clean_break_is_one_commit() -> None:
    point = change_point(runs("." * 30 + "x" * 30))

    assert point is not None
    assert (point.first, point.last) == (30, 30)
    assert point.probability > 0.999999


def test_two_runs_are_worked_out_by_hand() -> None:
    # Beta(1/2, 1/2): one pass has the probability 1/2, a pass and a failure in order 1/8.
    point = change_point(runs(".x"))

    assert point is not None
    assert point.probability == pytest.approx((1 / 4) / (1 / 4 + 1 / 8))
    assert point.by_commit == (0.0, 1.0)


def test_a_rate_that_stays_shows_no_change() -> None:
    point = change_point(runs("...x......x....x........x....x......"))

    assert point is not None
    assert point.probability < 0.5


def test_fewer_than_two_commits_tell_nothing() -> None:
    assert change_point(runs("x")) is None
    assert change_point([]) is None


def test_the_interval_holds_the_change_as_often_as_it_says() -> None:
    chance = random.Random(11)
    held = 0
    for _ in range(300):
        at = chance.randrange(1, 60)
        before, after = chance.betavariate(0.5, 0.5), chance.betavariate(0.5, 0.5)
        failures = "".join(
            "x" if chance.random() < (before if each < at else after) else "." for each in range(60)
        )
        point = change_point(runs(failures))
        assert point is not None
        held += point.first <= at <= point.last

    # The model is the one that drew them. 271 is its 0.1 % point if it holds 95 % of 300.
    assert held >= 271


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=40))
def test_it_is_a_probability_for_any_runs(counts: list[tuple[int, int]]) -> None:
    point = change_point(counts)

    assert point is not None
    assert 0 <= point.probability <= 1
    assert sum(point.by_commit) == pytest.approx(1)
    assert sum(point.by_commit[point.first : point.last + 1]) >= 0.95 - 1e-9


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
