# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.report.differences import differences, divergence_lines
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.results import Experiment, StartResult
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.errors import InfraError
from tests.unit.correctness.experiments import decided, experiment, result


def shown(*results: StartResult, count: int = 1) -> list[tuple[str, DifferenceKind, str, str]]:
    made: Experiment = experiment(*results)
    found = differences(made, decided(made, count), [f"r{index}" for index in range(count)])
    return [(each.request, each.kind, each.pair.first, each.pair.second) for each in found]


def test_the_baseline_is_held_against_the_candidate() -> None:
    assert shown(result("A1", "x"), result("B1", "y")) == [
        ("r0", DifferenceKind.CHANGED, "A1", "B1")
    ]


def test_of_a_flaky_request_two_baseline_starts_are_shown() -> None:
    assert shown(result("A1", "x"), result("B1", "y"), result("A2", "y")) == [
        ("r0", DifferenceKind.FLAKY, "A1", "A2")
    ]


def test_an_output_of_the_candidates_own_is_shown_before_one_that_the_baseline_has_shown() -> None:
    results = (result("A1", "x"), result("B1", "y"), result("A2", "y"), result("B2", "z"))
    assert shown(*results) == [("r0", DifferenceKind.OWN, "A1", "B2")]


def test_what_is_the_candidates_own_comes_first() -> None:
    results = (
        result("A1", "x x x x x"), result("B1", "x y y y y"), result("A2", "x x x x y"), result("B2", "x x y y x"),
    )  # fmt: skip
    assert [(request, kind) for request, kind, _, _ in shown(*results, count=5)] == [
        ("r2", DifferenceKind.CHANGED),
        ("r3", DifferenceKind.CHANGED),
        ("r1", DifferenceKind.SOMETIMES),
        ("r4", DifferenceKind.FLAKY),
    ]


def test_starts_that_are_no_evidence_are_not_shown() -> None:
    cut = result("B1", "y", cut_short=True)
    outside = result("B2", "z", outside=True)
    assert shown(result("A1", "x"), cut, outside, result("B3", "x"), result("A2", "x")) == []


def test_a_missing_answer_is_a_difference_where_there_is_no_other() -> None:
    made = experiment(result("A1", "x"), result("B1", "-"))
    (found,) = differences(made, decided(made, 1), ["r0"])

    assert (found.divergence.hardness, found.divergence.position) == (Hardness.MISSING, None)
    assert shown(result("A1", "x"), result("B1", "-"), result("A2", "x"), result("B2", "y")) == [
        ("r0", DifferenceKind.CHANGED, "A1", "B2")
    ]


def test_passes_are_held_against_each_other_by_their_number() -> None:
    half = result("B1", "- x", passes=2)
    made = experiment(result("A1", "y x", passes=2), half)
    (found,) = differences(made, decided(made, 1), ["r0"])
    assert (found.pair.number, found.divergence.hardness) == (1, Hardness.MISSING)
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
    """Outputs that count how often one is looked up, and break where told."""

    looked_up = 0
    broken = False

    def __getitem__(self, key: str) -> Mapping[str, Any]:
        self.looked_up += 1
        if self.broken:
            raise InfraError("gone")
        return super().__getitem__(key)


def shelf(*results: StartResult) -> tuple[Experiment, Shelf]:
    made = experiment(*results)
    outputs = Shelf(made.outputs)
    return replace(made, outputs=outputs), outputs


def test_the_nearer_of_two_baseline_answers_is_shown_at_three_lookups_at_most() -> None:
    made, outputs = shelf(
        result("A1", "x"), result("B1", "three"), result("A2", "two"), result("A3", "one")
    )
    (found,) = differences(made, decided(made, 1), ["r0"])

    assert (found.pair.first, found.pair.second, found.divergence.position) == ("A2", "B1", 1)
    assert outputs.looked_up <= 3


def test_an_answer_that_can_no_longer_be_read_takes_no_verdict_away() -> None:
    made, outputs = shelf(result("A1", "x"), result("B1", "y"))
    outputs.broken = True
    (found,) = differences(made, decided(made, 1), ["r0"])

    assert (found.divergence.hardness, found.divergence.position) == (Hardness.UNKNOWN, None)
    assert next(divergence_lines(found)) == "request r0: A1 against B1, answer"
