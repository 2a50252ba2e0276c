# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.correctness.collected.differences import (
    CollectedDifference,
    collected_differences,
    difference_lines,
)
from ci_doctor.correctness.collected.judge import judge
from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.starts import DifferenceKind
from tests.unit.correctness.collected.sample_files import collect


def differences(
    directory: Path, baseline: list[str], candidate: list[str]
) -> tuple[CollectedDifference, ...]:
    collected = collect(directory, baseline, candidate)
    return collected_differences(collected, judge(collected, Rules()))


def test_a_difference_is_shown_in_three_lines(tmp_path: Path) -> None:
    (difference,) = differences(tmp_path, ["x old"], ["x new"])

    assert list(difference_lines(difference)) == [
        "request c-1, character 4, A1 against B1",
        "  A1  …the [old]",
        "  B1  …the [new]",
    ]
    assert difference.place is not None
    assert difference.place.line == 2


def test_the_most_telling_kind_comes_first(tmp_path: Path) -> None:
    shown = differences(tmp_path, ["a x", "b x"], ["a y", "b y"])

    assert [(each.request, each.kind, each.first, each.second) for each in shown] == [
        ("c-1", DifferenceKind.CHANGED, "A1", "B1"),
        ("c-0", DifferenceKind.FLAKY, "A1", "A2"),
    ]


def test_an_answer_of_the_candidates_own_is_preferred(tmp_path: Path) -> None:
    (difference,) = differences(tmp_path, ["a", "b"], ["b", "c"])

    assert (difference.first, difference.second) == ("A1", "B2")


def test_a_missing_answer_names_the_start_without_one(tmp_path: Path) -> None:
    (difference,) = differences(tmp_path, ["x y", "x y"], ["x -", "x -"])

    assert next(difference_lines(difference)) == (
        "request c-1, A1 against B1: B1 has no answer, or fewer choices"
    )
