# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.report.differences import (
    StartDigests,
    differences,
    divergence_lines,
    manner,
    place,
    rows_around,
    sides,
    telling_pair,
    visible,
)
from ci_doctor.correctness.report.divergence import first_divergence, step
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.errors import InfraError
from ci_doctor.model.facts.correctness import Divergence, Hardness, PositionUnit
from tests.unit.correctness.experiments import decided, experiment, result
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
    assert sides(at) == ("one two [three]", "one two [·four]")
    # What is cut off before, and an answer that is missing.
    at = first_divergence(completion("x" * 50 + "a"), completion("x" * 50 + "b"))
    assert sides(at, before=5)[0] == "…xxxxx[a]"
    missing = Divergence(field="answer", hardness=Hardness.MISSING)
    assert sides(missing) == ("[no answer]", "[no answer]")


def test_the_numbers_around_a_divergence_are_put_side_by_side() -> None:
    left, right = legacy(A, A, A, A, X, A), legacy(A, A, A, A, Y)
    rows = rows_around(left, right, first_divergence(left, right), before=2, after=2)

    assert [(row.at, row.ulp, not row.left, not row.right) for row in rows] == [
        (2, 0, False, False),
        (3, 0, False, False),
        (4, None, False, False),
        (5, None, False, True),
    ]
    assert rows[2].left == (("x", -0.7), ("y", -0.75))


def test_without_log_probabilities_there_are_no_numbers() -> None:
    left, right = completion("ax", token_ids=[1, 2]), completion("ay", token_ids=[1, 3])

    assert rows_around(left, right, first_divergence(left, right)) == ()
    left, right = completion("a"), completion("b")
    assert rows_around(left, right, first_divergence(left, right)) == ()
    assert step(left, 0) is None


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


def start(name: str, *digests: str) -> StartDigests:
    """A start with these digests by pass; `-` is no answer."""
    arm = Arm.BASELINE if name[0] == "A" else Arm.CANDIDATE
    answered = {number: each for number, each in enumerate(digests, start=1) if each != "-"}
    return StartDigests(name=name, arm=arm, digests=answered)


def told(kind: DifferenceKind, *starts: StartDigests) -> tuple[str, str, int] | None:
    pair = telling_pair(kind, starts)
    return (pair.first, pair.second, pair.number) if pair else None


def test_the_pair_that_shows_most_is_chosen() -> None:
    one, two = start("A1", "x"), start("A2", "y")
    assert told(DifferenceKind.FLAKY, one, two, start("B1", "x")) == ("A1", "A2", 1)
    own = told(DifferenceKind.OWN, one, two, start("B1", "y"), start("B2", "z"))
    assert own == ("A1", "B2", 1)
    passes = (start("A1", "x", "x"), start("B1", "x", "y"))
    assert told(DifferenceKind.SOMETIMES, *passes) == ("A1", "B1", 2)
    assert told(DifferenceKind.CHANGED, one, start("B1", "-")) == ("A1", "B1", 1)
    assert told(DifferenceKind.CHANGED, one, start("B1", "-"), start("B2", "y")) == ("A1", "B2", 1)
    assert told(DifferenceKind.CHANGED, one, start("B1", "x")) is None


def shown(*results: StartResult, count: int = 1) -> list[tuple[str, ...]]:
    made: Experiment = experiment(*results)
    found = differences(made, decided(made, count), [f"r{index}" for index in range(count)])
    return [(each.request, DifferenceKind(each.kind), *each.starts) for each in found]


def test_what_is_the_candidates_own_comes_first() -> None:
    results = (
        result("A1", "x x x x x"), result("B1", "x y y y y"), result("A2", "x x x x y"), result("B2", "x x y y x"),
    )  # fmt: skip
    assert shown(*results, count=5) == [
        ("r2", DifferenceKind.CHANGED, "A1", "B1"),
        ("r3", DifferenceKind.CHANGED, "A1", "B1"),
        ("r1", DifferenceKind.SOMETIMES, "A1", "B1"),
        ("r4", DifferenceKind.FLAKY, "A1", "A2"),
    ]


def test_starts_that_are_no_evidence_are_not_shown() -> None:
    cut = result("B1", "y", cut_short=True)
    outside = result("B2", "z", outside=True)
    assert shown(result("A1", "x"), cut, outside, result("B3", "x"), result("A2", "x")) == []


def test_a_missing_answer_is_a_difference_where_there_is_no_other() -> None:
    made = experiment(result("A1", "x"), result("B1", "-"))
    (found,) = differences(made, decided(made, 1), ["r0"])

    assert (found.hardness, found.position) == (Hardness.MISSING, None)
    assert shown(result("A1", "x"), result("B1", "-"), result("A2", "x"), result("B2", "y")) == [
        ("r0", DifferenceKind.CHANGED, "A1", "B2")
    ]


def test_passes_are_held_against_each_other_by_their_number() -> None:
    made = experiment(result("A1", "y x", passes=2), result("B1", "- x", passes=2))
    (found,) = differences(made, decided(made, 1), ["r0"])
    assert (found.pass_, found.hardness) == (1, Hardness.MISSING)
    assert shown(result("A1", "y x", passes=2), result("B1", "y z", passes=2)) == [
        ("r0", DifferenceKind.CHANGED, "A1", "B1")
    ]


def test_three_lines_say_where_two_answers_part() -> None:
    made = experiment(result("A1", "two"), result("B1", "three"))
    (found,) = differences(made, decided(made, 1), ["r0"])
    assert list(divergence_lines(found)) == [
        "request r0: A1 against B1, character 1 of text",
        "  A1  t[wo]",
        "  B1  t[hree]",
    ]


class Shelf(dict[str, Mapping[str, Any]]):
    """Outputs that can no longer be read."""

    def __getitem__(self, key: str) -> Mapping[str, Any]:
        raise InfraError("gone")


def test_an_answer_that_can_no_longer_be_read_takes_no_verdict_away() -> None:
    made = experiment(result("A1", "x"), result("B1", "y"))
    made = replace(made, outputs=Shelf(made.outputs))
    (found,) = differences(made, decided(made, 1), ["r0"])

    assert (found.hardness, found.position) == (Hardness.UNKNOWN, None)
    assert next(divergence_lines(found)) == "request r0: A1 against B1, answer"
