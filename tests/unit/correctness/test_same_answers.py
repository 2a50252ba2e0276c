# SPDX-License-Identifier: Apache-2.0
"""Tests of which answers count as the same."""

# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping

# SPDX-License-Identifier: Apache-2.0
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.same_answers import NearAnswers, SameAnswers, are_near, levels_of
from ci_doctor.correctness.settings import (
    AnswerLevel,
    Arm,
    Comparison,
    NumberLimit,
    read_comparison,
)
from ci_doctor.correctness.verdict.canary import canary_detected
from ci_doctor.load.answer_items import parts
from ci_doctor.load.canonical import digest
from tests.unit.correctness.numbered import compared, completion, outputs, start


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


ONE = completion("a", -1.0, tokens=(1,))
NEAR = completion("a", -1.01, tokens=(1,))
FAR = completion("a", -3.0, tokens=(1,))
TOKEN = completion("a", -1.0, tokens=(2,))
WORD = completion("b", -1.0, tokens=(1,))
ALL = outputs(ONE, NEAR, FAR, TOKEN, WORD)
WITHIN = read_comparison(AnswerLevel.NUMBERS, "0.1 nat")


@pytest.mark.parametrize(
    ("comparison", "same"),
    [
        (Comparison(), []),
        (WITHIN, [NEAR]),
        (Comparison(level=AnswerLevel.TOKENS), [NEAR, FAR]),
        (Comparison(level=AnswerLevel.WORDS), [NEAR, FAR, TOKEN]),
    ],
)
def test_the_answers_of_a_start_are_outcomes_at_the_gates_level(
    comparison: Comparison, same: list[dict[str, object]]
) -> None:
    for each in (NEAR, FAR, TOKEN, WORD):
        made = compared(comparison, ALL, start("A1", [ONE]), start("B1", [each])).starts
        assert (made[0].answers == made[1].answers) is (each in same), each
        for level in AnswerLevel:
            exact = compared(Comparison(level=level), ALL, start("A1", [ONE]), start("B1", [each]))
            is_same = exact.starts[0].answers == exact.starts[1].answers
            assert (made[0].levels[level] == made[1].levels[level]) is is_same


def test_every_pass_counts_at_every_level() -> None:
    for comparison, other in ((WITHIN, FAR), (Comparison(level=AnswerLevel.WORDS), WORD)):
        steady, moved = compared(
            comparison, ALL, start("A1", [ONE, NEAR]), start("B1", [NEAR, other])
        ).starts
        again = compared(comparison, ALL, start("A1", [ONE, NEAR]), start("B1", [NEAR, ONE])).starts
        assert steady.answers != moved.answers
        assert again[0].answers == again[1].answers


def test_a_missing_answer_is_none_at_every_level() -> None:
    (made,) = compared(WITHIN, ALL, start("A1", [ONE, None], [ONE, ONE])).starts
    assert made.answers["r0"] is None
    assert made.answers["r1"] is not None
    assert [made.levels[level]["r0"] for level in AnswerLevel] == [None] * 3


def test_the_labels_of_the_arms_play_no_part_in_the_outcomes() -> None:
    # A permutation test may only use outcomes that do not depend on the labels.
    answers = [ONE, NEAR, FAR, NEAR]
    made = set()
    for arms in permutations("AABB"):
        results = [
            start(f"{arm}{n}", [each])
            for n, (arm, each) in enumerate(zip(arms, answers, strict=True), 1)
        ]
        starts = compared(WITHIN, ALL, *results).starts
        made.add(tuple(each.answers["r0"] for each in starts))
    assert len(made) == 1


def test_a_start_that_is_no_evidence_is_the_measure_of_no_other() -> None:
    same = SameAnswers(WITHIN, ALL)
    cut = replace(start("A1", [NEAR]), cut_short=True)
    assert same.at_gate(cut) is cut
    first = same.at_gate(start("A1", [ONE]))
    assert first.start.answers == start("A1", [ONE]).start.answers


def test_a_start_whose_record_holds_no_levels_gets_them_from_its_outputs() -> None:
    result = start("A1", [ONE, TOKEN], [None, ONE])
    without = replace(result, start=replace(result.start, levels={}))
    assert levels_of(without, ALL) == result.start.levels
    (made,) = compared(Comparison(level=AnswerLevel.WORDS), ALL, without).starts
    assert made.answers == result.start.levels[AnswerLevel.WORDS]


@pytest.mark.parametrize(
    "comparison", [WITHIN, *(Comparison(level=level) for level in AnswerLevel)]
)
def test_the_proof_of_the_comparison_goes_through_the_gates_level(comparison: Comparison) -> None:
    made = compared(comparison, ALL, start("A1", [ONE, ONE]), start("B1", [NEAR, ONE]))
    assert canary_detected(made, ["r0"])


def test_a_gate_that_calls_everything_equal_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compared(WITHIN, ALL, start("A1", [ONE]), start("B1", [NEAR]))
    assert canary_detected(made, ["r0"])
    monkeypatch.setattr("ci_doctor.correctness.same_answers.are_near", lambda *_: True)
    assert not canary_detected(made, ["r0"])


def test_an_answer_of_an_arm_is_held_against_those_of_both() -> None:
    made = compared(WITHIN, ALL, start("B1", [ONE]), start("A1", [NEAR])).starts
    assert [each.arm for each in made] == [Arm.CANDIDATE, Arm.BASELINE]
    assert made[0].answers == made[1].answers
