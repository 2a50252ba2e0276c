# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.report.pairs import AnswerPair, StartDigests, telling_pairs
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import DifferenceKind


def start(name: str, *digests: str) -> StartDigests:
    """A start with these digests by pass; `-` is no answer."""
    arm = Arm.BASELINE if name[0] == "A" else Arm.CANDIDATE
    answered = {number: each for number, each in enumerate(digests, start=1) if each != "-"}
    return StartDigests(name=name, arm=arm, digests=answered)


def names(pairs: tuple[AnswerPair, ...]) -> list[tuple[str, str, int]]:
    return [(pair.first, pair.second, pair.number) for pair in pairs]


def test_a_flaky_request_shows_two_baseline_starts() -> None:
    pairs = telling_pairs(DifferenceKind.FLAKY, [start("A1", "x"), start("A2", "y"), start("B1", "x")])  # fmt: skip

    assert names(pairs) == [("A1", "A2", 1)]


def test_an_answer_of_the_candidates_own_comes_first_against_two_answers_of_the_baseline() -> None:
    starts = [start("A1", "x"), start("A2", "y"), start("B1", "y"), start("B2", "z")]

    assert names(telling_pairs(DifferenceKind.OWN, starts)) == [("A1", "B2", 1), ("A2", "B2", 1)]


def test_the_pass_that_differs_is_named() -> None:
    starts = [start("A1", "x", "x"), start("B1", "x", "y")]

    assert names(telling_pairs(DifferenceKind.SOMETIMES, starts)) == [("A1", "B1", 2)]


def test_a_missing_answer_is_shown_only_if_no_two_differ() -> None:
    missing = [start("A1", "x"), start("B1", "-")]

    assert names(telling_pairs(DifferenceKind.CHANGED, missing)) == [("A1", "B1", 1)]
    assert names(telling_pairs(DifferenceKind.CHANGED, [*missing, start("B2", "y")])) == [
        ("A1", "B2", 1)
    ]
    assert telling_pairs(DifferenceKind.CHANGED, [start("A1", "x"), start("B1", "x")]) == ()
