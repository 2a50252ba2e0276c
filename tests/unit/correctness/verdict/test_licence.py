# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.differences import places_of
from ci_doctor.correctness.verdict.licence import is_noise, needed_arms
from ci_doctor.correctness.verdict.patterns import patterns
from tests.unit.correctness.verdict.test_decide import starts

A, B = Arm.BASELINE, Arm.CANDIDATE
RULES = Rules()


def made(baseline: str, candidate: str, archived: str = "") -> list[ArmStart]:
    """Starts as in test_decide; each archived one is of a build of its own."""
    before = [replace(each, archived=True, build=each.name) for each in starts(archived)]
    return [*before, *starts(baseline, candidate)]


def needed(given: Sequence[ArmStart], rules: Rules = RULES) -> set[Arm]:
    return set(needed_arms(patterns(given, [*given[0].answers]), places_of(given, rules)))


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ("x", "x", set()),
        # The candidate's first answer is the baseline's: what the baseline gives later is licensed.
        ("x y", "x", set()),
        ("x y", "x y", set()),
        # It is not: the candidate must vary too, and the baseline must give what it gives.
        ("x", "y", {A, B}),
        ("x y", "y", {B}),
        ("x", "y x", {A}),
        ("x y", "y x", set()),
        ("x y", "y y y y", {B}),
        # A new answer is licensed by none, however often the baseline varies.
        ("x y z", "x w", {A}),
        ("x", "w w", {A, B}),
        # No answer licenses nothing.
        ("x -", "x -", {A, B}),
    ],
)
def test_which_arm_needs_further_starts(baseline: str, candidate: str, expected: set[Arm]) -> None:
    assert needed(made(baseline, candidate)) == expected


def test_a_mode_made_permanent_is_never_licensed_after_a_first_pair_that_differs() -> None:
    assert needed(made("x y y y y y", "y y y y y y")) == {B}


def test_with_three_baseline_starts_asked_for_all_three_must_agree_with_the_candidate() -> None:
    rules = replace(RULES, least_baselines=3)
    assert needed(made("y y y", "y"), rules) == set()
    assert needed(made("y y x", "y"), rules) == {B}
    assert needed(made("y y y x", "y"), rules) == set()


@pytest.mark.parametrize(
    ("archived", "candidate", "expected"),
    [
        ("6*x", "x", set()),
        ("5*x y", "x", set()),
        ("4*x 2*y", "x", {B}),
        ("2*x y", "x", {B}),
        # A bad archived start excuses nothing.
        ("19*x w", "w", {A, B}),
        ("19*x w", "x w", {A}),
        ("3*x 3*y", "y x", set()),
    ],
)
def test_an_archive_licenses_what_its_builds_have_shown(
    archived: str, candidate: str, expected: set[Arm]
) -> None:
    assert needed(made("", candidate, archived)) == expected


def noise(baseline: str, candidate: str) -> bool:
    given = made(baseline, candidate)
    return is_noise(patterns(given, [*given[0].answers]), places_of(given, RULES))


def test_noise_is_what_both_arms_show() -> None:
    assert noise("ax xx xx", "xb xx xx")
    assert not noise("ax xx xx", "xx xx xx"), "the candidate shows none"
    assert not noise("ax xx", "xb xx"), "two starts of an arm show no noise"
    assert not noise("ax xx xx", "xb ub ub"), "the baseline's usual answer is lost"


def test_one_odd_start_of_eight_is_noise_too() -> None:
    assert noise("ax 7*xx", "8*xx")
    assert not noise("2*ax 6*xx", "8*xx")
