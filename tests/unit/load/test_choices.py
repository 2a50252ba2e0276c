# SPDX-License-Identifier: Apache-2.0
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.load.choices import (
    NotAnAnswerError,
    as_float32,
    comparable,
    compared_choice,
    nearest,
    ulp_distance,
)

LARGEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
SMALLEST = 2.0**-149


def text(number: float) -> str:
    return struct.pack("<d", number).hex()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(9, 17))
def test_a_float32_is_found_again_however_many_digits_it_was_printed_with(
    number: float, digits: int
) -> None:
    assert [text(each) for each in nearest([float(f"{number:.{digits}g}")])] == [text(number)]


def test_what_is_beyond_the_range_stays_a_double_and_its_neighbours_are_rounded() -> None:
    assert nearest([1e300, 0.1, -1e39, math.inf]) == [1e300, 0.10000000149011612, -1e39, math.inf]
    assert nearest([]) == []


@pytest.mark.parametrize(
    ("a", "b", "steps"),
    [
        (1.0, 1.0, 0),
        (0.0, -0.0, 0),
        (1.0, 1.0 + 2**-23, 1),
        (1.0, 1.0 - 2**-24, 1),
        (1.0, 1.0 + 2**-40, 0),
        (-0.1, -0.10000001, 1),
        (-SMALLEST, SMALLEST, 2),
        (1.0, 2.0, 2**23),
        (LARGEST, math.inf, 1),
        (LARGEST, 1e300, 1),
        (-math.inf, math.inf, 2 * 0x7F800000),
    ],
)
def test_steps_are_counted_over_zero_and_to_infinity(a: float, b: float, steps: int) -> None:
    assert ulp_distance(a, b) == ulp_distance(b, a) == steps


@given(*[st.floats(width=32, allow_nan=False)] * 3)
def test_steps_add_up_along_the_line(a: float, b: float, c: float) -> None:
    low, middle, high = sorted((a, b, c))
    assert ulp_distance(low, high) == ulp_distance(low, middle) + ulp_distance(middle, high)


def test_nan_is_nowhere() -> None:
    with pytest.raises(ValueError, match="NaN"):
        ulp_distance(math.nan, 0.0)


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


def with_message(**message: Any) -> dict[str, Any]:
    return {"index": 0, "message": message}


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_what_a_call_gives_its_tool_is_compared(kind: str) -> None:
    keys = {"function": "arguments", "custom": "input"}

    def call(given: str) -> dict[str, Any]:
        tool = {"name": "f", keys[kind]: given}
        return compared_choice(with_message(tool_calls=[{"id": "x", "type": kind, kind: tool}]))

    assert call("one") != call("other")


def test_a_call_that_names_no_tool_is_no_answer() -> None:
    with pytest.raises(NotAnAnswerError, match="does not name its tool"):
        compared_choice(with_message(tool_calls=[{"function": {"arguments": "{}"}}]))
