# SPDX-License-Identifier: Apache-2.0
"""Tests of what counts as the same answer."""

# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from ci_doctor.correctness.settings import (
    AnswerLevel,
    Comparison,
    LimitUnit,
    NumberLimit,
    read_comparison,
)
from ci_doctor.errors import UsageError
from ci_doctor.load.choices import nearest

NUMBERS = AnswerLevel.NUMBERS


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("0.01 nat", 0.01, LimitUnit.NAT),
        ("1e-6nat", 1e-6, LimitUnit.NAT),
        ("4 ulp", 4, LimitUnit.ULP),
        (" 4 ULP ", 4, LimitUnit.ULP),
        ("0 nat", 0, LimitUnit.NAT),
    ],
)
def test_a_limit_is_a_number_and_its_unit(text: str, value: float, unit: LimitUnit) -> None:
    assert read_comparison(NUMBERS, text).limit == NumberLimit(value=value, unit=unit)


@pytest.mark.parametrize(
    "text", ["", "4", "nat", "-1 nat", "4 ulps", "nan nat", "inf nat", "1,5 nat"]
)
def test_anything_else_is_refused_with_the_forms_that_are_allowed(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_comparison(NUMBERS, text)
    assert '"0.01 nat"' in str(caught.value.hint)
    assert '"4 ulp"' in str(caught.value.hint)


@pytest.mark.parametrize("level", [AnswerLevel.WORDS, AnswerLevel.TOKENS])
def test_a_limit_without_numbers_to_compare_is_refused(level: AnswerLevel) -> None:
    with pytest.raises(UsageError, match=f"compare = {level}"):
        read_comparison(level, "4 ulp")
    assert read_comparison(level, None) == Comparison(level=level)


@pytest.mark.parametrize("text", ["0.01 nat", "4 ulp", "1e-06 nat", "0.12345678901 nat", "10 nat"])
def test_a_limit_is_written_as_it_is_read(text: str) -> None:
    assert str(read_comparison(NUMBERS, text).limit) == text


def test_everything_is_compared_byte_for_byte_by_default() -> None:
    assert Comparison().is_exact
    assert not Comparison(level=AnswerLevel.TOKENS).is_exact
    assert not read_comparison(NUMBERS, "0 nat").is_exact


def test_every_number_must_be_within_the_limit_of_its_counterpart() -> None:
    limit = NumberLimit(value=0.25, unit=LimitUnit.NAT)
    assert limit.allows([-1.0, -2.0], [-1.25, -2.0])
    assert not limit.allows([-1.0, -2.0], [-1.5, -2.0])
    assert not limit.allows([-1.0], [-1.0, -1.0]), "a number that only one side gives"
    assert limit.allows([-math.inf], [-math.inf])
    assert not limit.allows([-math.inf], [-1.0])


def test_steps_of_float32_are_a_limit_for_numbers_of_any_size() -> None:
    limit = NumberLimit(value=1, unit=LimitUnit.ULP)
    (small, large) = nearest([-0.25, -1024.0])
    assert limit.allows([small, large], [-0.25000003, -1024.0001])
    assert not limit.allows([small], [-0.2500001])


def test_a_comparison_says_how_answers_are_the_same() -> None:
    assert Comparison().manner == "byte for byte"
    assert "within 4 ulp" in read_comparison(NUMBERS, "4 ulp").manner
    assert Comparison(level=AnswerLevel.WORDS).manner == "in words"
