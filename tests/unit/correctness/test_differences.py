# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.compare import Kind
from ci_doctor.correctness.differences import differences, divergence_lines
from ci_doctor.correctness.results import Experiment, StartResult
from tests.unit.correctness.experiments import context, decided, experiment, result


def shown(*results: StartResult, count: int = 1) -> list[tuple[str, Kind, str, str]]:
    made: Experiment = experiment(*results)
    found = differences(made, decided(made, count), context(count).requests)
    return [(each.request.id, each.kind, each.first, each.second) for each in found]


def test_the_baseline_is_held_against_the_candidate() -> None:
    assert shown(result("A1", "x"), result("B1", "y")) == [("r0", Kind.CHANGED, "A1", "B1")]


def test_of_a_flaky_request_two_baseline_starts_are_shown() -> None:
    assert shown(result("A1", "x"), result("B1", "y"), result("A2", "y")) == [("r0", Kind.FLAKY, "A1", "A2")]


def test_an_output_of_the_candidates_own_is_shown_before_one_that_the_baseline_has_shown() -> None:
    results = (result("A1", "x"), result("B1", "y"), result("A2", "y"), result("B2", "z"))
    assert shown(*results) == [("r0", Kind.OWN, "A1", "B2")]


def test_what_tells_most_comes_first_and_three_are_enough() -> None:
    results = (
        result("A1", "x x x x x"), result("B1", "x y y y y"), result("A2", "x x x x y"), result("B2", "x x y y x"),
    )  # fmt: skip
    assert [(request, kind) for request, kind, _, _ in shown(*results, count=5)] == [
        ("r2", Kind.CHANGED),
        ("r3", Kind.CHANGED),
        ("r1", Kind.SOMETIMES),
    ]


def test_starts_that_are_no_evidence_are_not_shown() -> None:
    cut = result("B1", "y", cut_short=True)
    outside = result("B2", "z", outside=True)
    assert shown(result("A1", "x"), cut, outside, result("B3", "x"), result("A2", "x")) == []


def test_a_missing_answer_is_no_difference_that_can_be_shown() -> None:
    assert shown(result("A1", "x"), result("B1", "-")) == []


def test_passes_are_held_against_each_other_by_their_number() -> None:
    half = result("B1", "- x", passes=2)
    assert shown(result("A1", "y x", passes=2), half) == []
    assert shown(result("A1", "y x", passes=2), result("B1", "y z", passes=2)) == [("r0", Kind.CHANGED, "A1", "B1")]


def test_three_lines_say_where_two_answers_part() -> None:
    made = experiment(result("A1", "two"), result("B1", "three"))
    (found,) = differences(made, decided(made, 1), context(1).requests)
    assert list(divergence_lines(found)) == [
        "request r0, character 1, A1 against B1",
        "  A1  …t[wo]",
        "  B1  …t[hree]",
    ]
