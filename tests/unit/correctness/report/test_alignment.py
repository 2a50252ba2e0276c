# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.report.alignment import (
    manner,
    place,
    ranked,
    rows_around,
    side_lines,
    sides,
    visible,
)
from ci_doctor.correctness.report.divergence import Divergence, PositionUnit, first_divergence
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.report.tokens import step
from tests.unit.correctness.report.test_divergence import A, completion, legacy

X = ("x", {"x": -0.7, "y": -0.75})
Y = ("y", {"y": -0.7, "x": -0.75})


@pytest.mark.parametrize(
    ("text", "seen"),
    [("a b", "a·b"), ("a\n\tb\r", "a⏎⇥b␍"), ("\x1b[31m", "\\x1b[31m"), ("\u202e", "\\u202e"), ("\ud800", "\\ud800"), ("字", "字")],
)  # fmt: skip
def test_nothing_in_a_text_is_hidden_or_acts(text: str, seen: str) -> None:
    assert visible(text, spaces=True) == seen


def test_both_answers_stand_below_each_other_with_what_differs_in_brackets() -> None:
    at = first_divergence(completion("one two three"), completion("one two  four"))

    assert list(side_lines(sides(at, "A1", "B12"))) == [
        "   A1  one two [three]",
        "  B12  one two [·four]",
    ]


def test_what_is_cut_off_before_is_said_to_be() -> None:
    at = first_divergence(completion("x" * 50 + "a"), completion("x" * 50 + "b"))

    assert sides(at, "A1", "B1", before=5)[0].before == "…xxxxx"


def test_a_missing_answer_is_said_to_be_missing() -> None:
    at = Divergence(field="answer", hardness=Hardness.MISSING)

    assert [side.own for side in sides(at, "A1", "B1")] == ["no answer"] * 2


def test_the_numbers_around_a_divergence_are_put_side_by_side() -> None:
    left, right = legacy(A, A, A, A, X, A), legacy(A, A, A, A, Y)
    rows = rows_around(left, right, first_divergence(left, right), before=2, after=2)

    assert [(row.at, row.ulp, row.left is None, row.right is None) for row in rows] == [
        (2, 0, False, False),
        (3, 0, False, False),
        (4, None, False, False),
        (5, None, False, True),
    ]
    assert [(each.token, each.logprob) for each in ranked(rows[2].left, 5)] == [
        ("x", -0.7),
        ("y", -0.75),
    ]


def test_without_log_probabilities_there_are_no_numbers() -> None:
    left, right = completion("ax", token_ids=[1, 2]), completion("ay", token_ids=[1, 3])

    assert rows_around(left, right, first_divergence(left, right)) == ()
    assert (
        rows_around(
            completion("a"), completion("b"), first_divergence(completion("a"), completion("b"))
        )
        == ()
    )


def test_a_step_that_a_choice_does_not_have_is_none() -> None:
    assert step(completion("a"), 0) is None
    assert ranked(None, 5) == ()


@pytest.mark.parametrize(
    ("at", "where", "how"),
    [
        (Divergence(field="content", hardness=Hardness.HARD, unit=PositionUnit.TOKEN, position=37, gap=6.2), "token 37 of content", "hard, 6.2 nat apart"),
        # The numbers of later tokens may lie further apart: the sentence is about this token alone.
        (Divergence(field="logprobs", hardness=Hardness.NUMBERS, unit=PositionUnit.TOKEN, position=3, gap=1.7e-06), "token 3 of logprobs", "the same words, other numbers, at most 1.7e-06 nat apart at this token"),
        (Divergence(field="text", hardness=Hardness.UNKNOWN, position=4, choice=2), "character 4 of text of choice 2", ""),
        (Divergence(field="choices[0].finish_reason", hardness=Hardness.LENGTH, position=4), "character 4, the end (finish_reason)", "length"),
        (Divergence(field="completion_tokens", hardness=Hardness.LENGTH), "completion_tokens", "length"),
    ],
)  # fmt: skip
def test_where_and_how_in_words(at: Divergence, where: str, how: str) -> None:
    assert (place(at), manner(at)) == (where, how)
