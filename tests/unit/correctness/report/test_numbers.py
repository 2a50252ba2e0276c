# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.correctness.report.numbers import number_difference, ulp_before


def choice(*logprobs: float) -> dict[str, Any]:
    tokens = [f"t{index}" for index in range(len(logprobs))]
    top = [{token: value, "z": -3.0} for token, value in zip(tokens, logprobs, strict=True)]
    return {"logprobs": {"tokens": tokens, "token_logprobs": list(logprobs), "top_logprobs": top}}


def test_the_first_number_that_differs_is_found_with_its_gap() -> None:
    difference = number_difference(choice(-0.1, -0.2, -0.3), choice(-0.1, -0.25, -0.9))

    assert difference is not None
    assert difference.position == 1
    assert difference.gap == pytest.approx(0.05)
    assert (difference.before, difference.left, difference.right) == ("t0", "t1", "t1")


@pytest.mark.parametrize("broken", [{}, {"logprobs": None}, {"logprobs": {"tokens": ["a"]}}])
def test_without_numbers_on_both_sides_no_token_is_named(broken: dict[str, Any]) -> None:
    assert number_difference(choice(-0.1), broken) is None


def test_the_greatest_distance_before_a_position_counts() -> None:
    left = choice(-0.25, -0.5, -0.7)
    right = choice(-0.25, -0.5 - 2.0**-24, -0.9)

    assert ulp_before(left, right, 1) == 0
    assert ulp_before(left, right, 2) == 1
    assert ulp_before(left, right, 0) is None
