# SPDX-License-Identifier: Apache-2.0
"""Fisher's test against known values, and the printed risk against a simulation."""

import random

import pytest

from ci_doctor.checks.gpu_proof.fisher import (
    equal_starts_probability,
    fisher_p,
    highest_missed_rate,
)


@pytest.mark.parametrize(
    ("table", "p"),
    [
        pytest.param((3, 10, 0, 10), 0.2105, id="three-of-ten-against-none"),
        pytest.param((6, 6, 0, 6), 2 / 924, id="all-against-none"),
        pytest.param((3, 4, 1, 4), 0.4857, id="the-tea-tasting-lady"),
        pytest.param((5, 10, 5, 10), 1.0, id="equal-shares"),
        pytest.param((0, 10, 0, 10), 1.0, id="nothing-in-either"),
        pytest.param((2, 3, 0, 0), 1.0, id="an-empty-group"),
    ],
)
def test_p_is_that_of_the_textbook(table: tuple[int, int, int, int], p: float) -> None:
    assert fisher_p(*table) == pytest.approx(p, abs=5e-5)


def test_probability_of_equal_starts_is_that_of_a_simulation() -> None:
    chance = random.Random(13)
    equal = 0
    for _ in range(20_000):
        kinds = {chance.random() < 0.1 for _ in range(10)}
        equal += len(kinds) == 1

    # Five standard errors of a share of 0.35 over 20,000 draws are 0.017.
    assert equal / 20_000 == pytest.approx(equal_starts_probability(10, 0.1), abs=0.017)


@pytest.mark.parametrize("starts", [6, 10, 20, 59])
def test_highest_missed_rate_is_missed_with_exactly_the_stated_risk(starts: int) -> None:
    rate = highest_missed_rate(starts)

    assert equal_starts_probability(starts, rate) == pytest.approx(0.05)
    assert rate < 3 / starts


def test_a_few_equal_starts_exclude_nothing() -> None:
    assert highest_missed_rate(3) == 0.5
