# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

import pytest

from ci_doctor.correctness.comparison import AnswerLevel, NumberLimit, read_comparison
from ci_doctor.correctness.near_answers import NearAnswers, are_near
from ci_doctor.load.answer_items import parts
from ci_doctor.load.canonical import digest
from tests.unit.correctness.numbered import completion, outputs


def limit(text: str) -> NumberLimit:
    made = read_comparison(AnswerLevel.NUMBERS, text).limit
    assert made is not None
    return made


def near(one: Mapping[str, Any], other: Mapping[str, Any], text: str = "0.25 nat") -> bool:
    both = [are_near(parts(a), parts(b), limit(text)) for a, b in ((one, other), (other, one))]
    assert both[0] is both[1], "it has no direction"
    return both[0]


def test_words_and_tokens_must_be_the_same_however_near_the_numbers_are() -> None:
    one = completion("a", -1.0, tokens=(1,))
    assert near(one, completion("a", -1.25, tokens=(1,)))
    assert not near(one, completion("a", -1.5, tokens=(1,)))
    assert not near(one, completion("b", -1.0, tokens=(1,)))
    assert not near(one, completion("a", -1.0, tokens=(2,)))
    assert not near(one, completion("a", tokens=(1,))), "one side gives no numbers"


@pytest.mark.parametrize(
    ("other", "is_near"),
    [
        ({"x": -1.25, "y": -2.0}, True),
        ({"x": -1.5, "y": -2.0}, False),
        # The last alternative of one side may be the next after the last of the other.
        ({"x": -1.0, "z": -2.0}, True),
        ({"x": -1.0, "z": -2.25}, True),
        ({"x": -1.0, "z": -2.5}, False),
        ({"x": -1.0, "z": -1.5}, False),
        ({}, False),
    ],
)
def test_alternatives_are_compared_by_token_as_far_as_both_sides_list_it(
    other: dict[str, float], is_near: bool
) -> None:
    one = completion("a", -1.0, top=[{"x": -1.0, "y": -2.0}])
    assert near(one, completion("a", -1.0, top=[other])) is is_near


def test_an_answer_belongs_to_the_earliest_outcome_that_it_is_near() -> None:
    first, second, third, fourth = (completion("a", n) for n in (-1.0, -1.2, -1.4, -1.3))
    known = outputs(first, second, third, fourth)
    within = NearAnswers(limit("0.25 nat"), known)

    made = [within.outcome("r0", digest(each)) for each in (first, second, third, fourth, third)]

    # The second is near the first. The third is near the second only, so it is an outcome of its
    # own; the fourth is near both of them, and not near the first.
    assert made == [digest(each) for each in (first, first, third, third, third)]
    assert within.outcome("r1", digest(second)) == digest(second), "of another request"


def test_an_answer_that_is_there_already_is_not_read() -> None:
    one = completion("a", -1.0)
    within = NearAnswers(limit("0 nat"), {})
    assert {within.outcome("r0", digest(one)) for _ in range(3)} == {digest(one)}
