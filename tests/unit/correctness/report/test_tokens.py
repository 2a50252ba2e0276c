# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.correctness.report.tokens import common, number, step, token_lists

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
