# SPDX-License-Identifier: Apache-2.0
from math import comb
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.correctness.verdict.looks import spent_by
from ci_doctor.correctness.verdict.mix_test import MISSING, Patterns
from ci_doctor.correctness.verdict.validity import (
    remaining_risk,
    request_bounds,
    upper_limit,
)
from ci_doctor.model.facts.correctness import RequestBound
from ci_doctor.render.formatting import whole_percent_up


@given(st.integers(0, 6), st.integers(1, 40))
def test_the_limit_is_that_of_clopper_and_pearson(differed: int, starts: int) -> None:
    limit = upper_limit(differed, starts)
    if differed >= starts:
        assert limit == 1.0
        return
    tail = 0.0
    for count in range(differed + 1):
        tail += comb(starts, count) * limit**count * (1 - limit) ** (starts - count)
    assert tail == pytest.approx(0.05 / 2 ** (differed + 1), rel=1e-6)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.85, 0.95])
@pytest.mark.parametrize("greed", [0, 1, 3])
def test_a_limit_is_untrue_in_one_experiment_of_twenty_at_most_whenever_it_ends(
    share: float, greed: int
) -> None:
    # An adversary ends the experiment as soon as the limit is untrue, if ever.
    source = Random(f"{share} {greed}")
    untrue = 0
    for _ in range(2000):
        differed = 0
        for starts in range(1, 31):
            differed += source.random() < share
            if starts > greed and upper_limit(differed, starts) < share:
                untrue += 1
                break
    assert untrue / 2000 <= 0.065


def test_an_answer_that_the_baseline_never_gave_counts_once_a_start() -> None:
    patterns: Patterns = {
        (0, 0, 0, 0): ["r0"],
        (0, 1, 1, 2): ["r1"],
        (0, 0, MISSING, 0): ["r2"],
        (0, 0, 1, 2): ["r3", "r4"],
    }
    bounds = request_bounds(patterns, (0, 1), (2, 3))
    differed = {each.request: each.differed for each in bounds}
    assert differed == {"r0": 0, "r1": 1, "r2": 1, "r3": 2, "r4": 2}
    assert [each.bound for each in bounds] == sorted((each.bound for each in bounds), reverse=True)


def bound(differed: int, starts: int) -> RequestBound:
    return RequestBound(
        request="q12", differed=differed, starts=starts, bound=upper_limit(differed, starts)
    )


def test_the_sentences_name_the_figures() -> None:
    assert "less than 71% of starts can hide behind 3 candidate starts" in remaining_risk(
        [bound(0, 3)]
    )
    assert "q12 differed in 1 of 3 candidate starts: a fault that changes it in less than 94%" in (
        remaining_risk([bound(1, 3)])
    )
    assert "a fault on q12 in any share of starts can hide" in remaining_risk([bound(1, 1)])


@given(st.floats(0, 1))
def test_a_printed_share_is_never_below_the_bound(share: float) -> None:
    assert whole_percent_up(share) >= 100 * share - 1e-6


def test_alpha_is_spent_by_the_last_start_and_no_earlier() -> None:
    spent = [spent_by(0.025, made, 16) for made in range(17)]
    assert spent[0] == 0
    assert spent[16] == pytest.approx(0.025)
    assert spent == sorted(spent)
    assert spent_by(0.025, 40, 16) == pytest.approx(0.025)
