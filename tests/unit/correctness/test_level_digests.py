# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.comparison import AnswerLevel
from ci_doctor.correctness.level_digests import digest_at
from tests.unit.correctness.numbered import completion

ONE = completion("a b", -0.5, tokens=(1, 2))
OTHER_NUMBERS = completion("a b", -0.25, tokens=(1, 2))
OTHER_TOKENS = completion("a b", -0.5, tokens=(3, 2))
OTHER_WORDS = completion("a c", -0.5, tokens=(1, 2))
NO_NUMBERS = completion("a b", tokens=(1, 2))


@pytest.mark.parametrize(
    ("other", "same_at"),
    [
        (OTHER_NUMBERS, {"words", "tokens"}),
        (NO_NUMBERS, {"words", "tokens"}),
        (OTHER_TOKENS, {"words"}),
        (OTHER_WORDS, set()),
        (completion("a b", -0.5, tokens=(1, 2)), {"words", "tokens", "numbers"}),
    ],
)
def test_each_level_compares_what_is_below_it_too(
    other: dict[str, object], same_at: set[str]
) -> None:
    same = {
        level.value for level in AnswerLevel if digest_at(ONE, level) == digest_at(other, level)
    }
    assert same == same_at


def test_an_answer_of_numbers_alone_has_no_other_words() -> None:
    # Else a gate on words would pass any vector.
    one, other = (
        {"kind": "vector", "items": [{"index": 0, "numbers": [number, 1.0]}]}
        for number in (0.5, 0.25)
    )
    for level in AnswerLevel:
        assert digest_at(one, level) != digest_at(other, level)
