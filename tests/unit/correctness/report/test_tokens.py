# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.correctness.report.tokens import (
    Alternative,
    Step,
    common,
    compare_steps,
    number,
    number_difference,
    step,
    token_lists,
    ulp_before,
    ulp_between,
)
from ci_doctor.model.facts.correctness import Hardness

NEAR = {"tokens": ["a", "x"], "token_logprobs": [-0.1, -0.7], "top_logprobs": [None, {"y": -0.9, "x": -0.7}]}  # fmt: skip


def test_a_token_has_its_best_alternatives_first() -> None:
    token = step({"logprobs": NEAR}, 1)

    assert token is not None
    assert (token.token, token.logprob) == ("x", -0.7)
    assert [each.token for each in token.top] == ["x", "y"]


def test_ids_without_log_probabilities_are_tokens_by_their_number() -> None:
    token = step({"token_ids": [7, 8]}, 1)

    assert token is not None
    assert (token.token, token.logprob, token.top) == ("token 8", None, ())


def test_ids_and_texts_of_other_lengths_are_not_put_together() -> None:
    token = step({"token_ids": [7, 8, 9], "logprobs": NEAR}, 1)

    assert token is not None
    assert token.token == "token 8"


def test_a_token_behind_the_end_is_none() -> None:
    assert step({"logprobs": NEAR}, 2) is None
    assert step({}, 0) is None


def test_two_choices_are_compared_in_a_form_that_both_have() -> None:
    ids: dict[str, Any] = {"token_ids": [1, 2], "logprobs": {"tokens": ["a", "b"]}}
    texts: dict[str, Any] = {"logprobs": {"tokens": ["a", "c"]}}

    assert token_lists(ids, ids) == ([1, 2], [1, 2])
    assert token_lists(ids, texts) == (["a", "b"], ["a", "c"])
    assert token_lists(ids, {}) is None


@pytest.mark.parametrize(
    ("value", "read"),
    [(1, 1.0), (-0.5, -0.5), (True, None), ("1", None), (None, None), (10**400, None)],
)
def test_what_counts_as_a_number(value: object, read: float | None) -> None:
    assert number(value) == read


@pytest.mark.parametrize(
    ("left", "right", "length"), [("", "a", 0), ("abc", "abd", 2), ("ab", "abc", 2), ("a", "a", 1)]
)
def test_the_common_beginning(left: str, right: str, length: int) -> None:
    assert common(left, right) == length


def token(name: str, **top: float) -> Step:
    alternatives = tuple(Alternative(token=each, logprob=value) for each, value in top.items())
    return Step(token=name, logprob=top.get(name), top=alternatives)


@pytest.mark.parametrize(
    ("left", "right", "hardness", "gap"),
    [
        (token("x", x=-0.70, y=-0.75), token("y", y=-0.71, x=-0.72), Hardness.NEAR_TIE, 0.05),
        (token("x", x=-0.70, y=-0.85), token("y", y=-0.71, x=-0.72), Hardness.HARD, 0.15),
        # The other token is not listed: the last listed one is the least distance.
        (token("x", x=-0.70, w=-0.72), token("y", y=-0.71, x=-0.72), Hardness.HARD, 0.02),
        # One side alone proves a hard difference, and no near-tie.
        (token("x", x=-0.70), token("y", y=-0.10, x=-3.00), Hardness.HARD, 2.9),
        (token("x", x=-0.70), token("y", y=-0.71, x=-0.72), Hardness.UNKNOWN, None),
        (token("x"), token("y"), Hardness.UNKNOWN, None),
        (token("x", x=-0.7), token("x", x=-0.9), Hardness.UNKNOWN, None),
    ],
)
def test_how_hard_two_tokens_differ(
    left: Step, right: Step, hardness: Hardness, gap: float | None
) -> None:
    expected = None if gap is None else pytest.approx(gap)

    assert compare_steps(left, right) == (hardness, expected)


def test_the_distance_of_log_probabilities_is_unknown_if_one_is() -> None:
    assert ulp_between(token("x", x=-0.5), token("x", x=-0.5)) == 0
    assert ulp_between(token("x", x=-0.5), token("x")) is None


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
