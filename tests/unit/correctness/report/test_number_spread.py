# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.report.number_spread import NumberSpread, number_spread
from tests.unit.correctness.numbered import completion


def test_the_spread_is_that_of_the_two_farthest_answers() -> None:
    answers = [completion("a", number, -2.0) for number in (-1.0, -0.75, -1.25)]
    spread = number_spread(answers)
    assert spread is not None
    assert spread.nat == 0.5
    assert spread.ulp == (1 << 22) + (1 << 21), "half of an octave, and a quarter of the next"


def test_alternatives_are_held_beside_each_other_by_token() -> None:
    one = completion("a", -1.0, top=[{"x": -1.0, "y": -2.0}])
    other = completion("a", -1.0, top=[{"y": -2.5, "z": -9.0}])
    spread = number_spread([one, other])
    assert spread is not None
    assert spread.nat == 0.5


def test_numbers_of_other_words_or_tokens_are_not_compared() -> None:
    assert number_spread([completion("a", -1.0), completion("b", -2.0)]) is None
    assert number_spread([completion("a", -1.0)]) is None
    assert number_spread([completion("a"), completion("a")]) is None
    assert number_spread([completion("a", -1.0)] * 2) == NumberSpread()
