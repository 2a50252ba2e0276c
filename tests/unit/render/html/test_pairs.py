# SPDX-License-Identifier: Apache-2.0
from ci_doctor.model.facts.correctness import AlignedAnswers, NumbersApart
from ci_doctor.render.html.pairs import MEANINGS, pair


def test_the_page_says_how_far_two_vectors_lie_apart() -> None:
    apart = NumbersApart(count=1024, places=3, first=7, largest=1e-7, ulp=1200, cosine=2e-7)
    about = AlignedAnswers(request="r", field="vector of 1,024", hardness="numbers", apart=apart)
    assert pair(about).meaning == "differs at 3 places, cosine distance 2e-07, largest 1,200 ULP"


def test_other_numbers_are_explained_by_their_kind() -> None:
    about = AlignedAnswers(request="r", field="logprobs", hardness="numbers")
    assert pair(about).meaning == MEANINGS["numbers"]


def test_one_place_and_one_number_are_in_the_singular() -> None:
    one = NumbersApart(count=9, places=1, first=7, largest=1e-7, ulp=1, cosine=None)
    assert one.words == "differs at 1 place, largest 1 ULP"
    score = NumbersApart(count=1, places=1, first=0, largest=0.25, ulp=9)
    assert score.words == "differs by 0.25, 9 ULP"
