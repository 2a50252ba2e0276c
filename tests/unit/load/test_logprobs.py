# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest

from ci_doctor.load.logprobs import as_float32, comparable

TENTH = 0.10000000149011612


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"token_logprobs": [None, 0.1, -1]}, {"token_logprobs": [None, TENTH, -1.0]}),
        ({"tokens": ["a"], "text_offset": [0, 3]}, {"tokens": ["a"], "text_offset": [0, 3]}),
        (
            {"top_logprobs": [None, {"rank": -1, "a": 0.1}]},
            {"top_logprobs": [None, {"rank": -1.0, "a": TENTH}]},
        ),
        (
            {
                "content": [
                    {
                        "token": "a",
                        "logprob": -1,
                        "bytes": [97],
                        "top_logprobs": [{"token": "a", "logprob": 0.1}],
                    }
                ]
            },
            {
                "content": [
                    {
                        "token": "a",
                        "logprob": -1.0,
                        "bytes": [97],
                        "top_logprobs": [{"token": "a", "logprob": TENTH}],
                    }
                ]
            },
        ),
        (
            [None, {"12": {"logprob": 0.1, "rank": 1}}],
            [None, {"12": {"logprob": TENTH, "rank": 1}}],
        ),
        ({"token_logprobs": [10**400, True, "x"]}, {"token_logprobs": [10**400, True, "x"]}),
        ([0.1, 0.1], [TENTH, TENTH]),
        (0.1, TENTH),
        (-1e300, -1e300),
    ],
)
def test_log_probabilities_are_float32_and_other_numbers_are_left(
    value: Any, expected: Any
) -> None:
    before = json.dumps(value)
    assert json.dumps(as_float32(value)) == json.dumps(expected)
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    "value", [None, {}, [], {"content": None}, {"content": [], "refusal": None}]
)
def test_what_tells_nothing_is_none(value: Any) -> None:
    assert comparable(value) is None


def test_a_gap_inside_a_list_is_told() -> None:
    assert comparable({"token_logprobs": [None], "top_logprobs": None}) == {
        "token_logprobs": [None]
    }
