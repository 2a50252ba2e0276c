# SPDX-License-Identifier: Apache-2.0
"""An archived answer licenses what as many independent builds have shown as its rate needs."""

import pytest

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.archive_licence import (
    by_build,
    excess_p,
    independent_builds,
    licensed,
    replaces_baseline,
)
from ci_doctor.correctness.verdict.compare import Answer, ArmStart
from ci_doctor.correctness.verdict.differences import places_of
from ci_doctor.correctness.verdict.licence import archive_licenses, is_usual_in_archive
from ci_doctor.correctness.verdict.patterns import MISSING, pattern


def archived(*builds: tuple[str | None, str]) -> list[ArmStart]:
    """For each build its archived starts; a letter is a start's answer, `-` is none."""
    starts: list[ArmStart] = []
    for build, letters in builds:
        for letter in letters:
            starts.append(
                ArmStart(
                    arm=Arm.BASELINE,
                    number=len(starts) + 1,
                    answers={"r": None if letter == "-" else letter},
                    archived=True,
                    build=build,
                )
            )
    return starts


def one_each(letters: str) -> list[ArmStart]:
    """Archived starts of as many builds."""
    return archived(*((f"build {number}", letter) for number, letter in enumerate(letters)))


def candidate(letters: str) -> list[ArmStart]:
    starts = []
    for number, letter in enumerate(letters, 1):
        answers: dict[str, Answer] = {"r": None if letter == "-" else letter}
        starts.append(ArmStart(arm=Arm.CANDIDATE, number=number, answers=answers))
    return starts


def class_of(starts: list[ArmStart], answer: Answer) -> tuple[tuple[int, ...], int]:
    """The pattern of these starts, and the class of `answer` in it; one of its own if none gave it."""
    outcomes = [start.answers.get("r") for start in starts]
    classes = pattern(outcomes)
    if answer is None:
        return classes, MISSING
    if answer not in outcomes:
        return classes, len(outcomes)
    return classes, classes[outcomes.index(answer)]


def is_licensed(starts: list[ArmStart], answer: Answer) -> bool:
    classes, number = class_of(starts, answer)
    return archive_licenses(classes, places_of(starts, Rules()), number)


def is_usual(starts: list[ArmStart], answer: Answer) -> bool:
    classes, number = class_of(starts, answer)
    return is_usual_in_archive(classes, places_of(starts, Rules()), number)


def test_one_bad_build_excuses_nothing() -> None:
    assert not is_licensed(one_each("x" + "a" * 19) + candidate("x"), "x")
    assert not licensed(1, 1, 1, 1)


def test_two_builds_license_a_candidate_that_shows_it_as_rarely() -> None:
    starts = one_each("xx" + "a" * 18)
    assert is_licensed(starts + candidate("x"), "x")
    assert is_licensed(starts + candidate("xaaaaa"), "x")


def test_a_rare_mode_made_permanent_is_not_licensed() -> None:
    starts = one_each("xx" + "a" * 18)
    assert not is_licensed(starts + candidate("xx"), "x")
    assert not is_licensed(starts + candidate("xxx"), "x")


def test_two_modes_of_one_half_license_one_another() -> None:
    starts = one_each("xaxaxaxa")
    assert is_licensed(starts + candidate("xxx"), "x")
    assert is_licensed(starts + candidate("aaa"), "a")


def test_many_starts_of_one_build_are_one_build() -> None:
    starts = archived(("one", "xxxxxxxxxx"), ("two", "aaaaa"))
    assert independent_builds(starts) == 2
    assert not is_licensed(starts + candidate("x"), "x")


def test_a_build_counts_with_the_share_of_its_starts() -> None:
    # Every build has shown it, each in one of five starts: a rate of 0.2, and not of 1.
    starts = archived(*((f"build {number}", "xaaaa") for number in range(15)))
    assert is_licensed(starts + candidate("x"), "x")
    assert not is_licensed(starts + candidate("xxxx"), "x")


def test_starts_of_unknown_builds_are_one_build_together() -> None:
    starts = archived((None, "x"), (None, "x"), ("known", "x"))
    assert {build: len(made) for build, made in by_build(starts).items()} == {None: 2, "known": 1}
    assert is_licensed(starts + candidate("x"), "x")
    assert not is_licensed(archived((None, "xxxx")) + candidate("x"), "x")


def test_no_answer_licenses_no_answer() -> None:
    assert not is_licensed(one_each("-----") + candidate("-"), None)


def test_starts_of_today_are_no_builds_of_the_archive() -> None:
    today = [ArmStart(arm=Arm.BASELINE, number=1, answers={"r": "x"})]
    assert independent_builds(today) == 0
    assert not is_licensed(today + candidate("x"), "x")


def test_a_candidate_start_without_any_answer_makes_no_share_smaller() -> None:
    starts = one_each("xx" + "a" * 18)
    assert not is_licensed(starts + candidate("xx----"), "x")


@pytest.mark.parametrize(
    ("builds_with", "builds", "starts_with", "starts", "p"),
    [
        # By hand: (3 of 21), 3 * 2 / (22 * 21) * ..., and the whole distribution.
        pytest.param(2, 20, 1, 1, 3 / 21, id="one-start"),
        pytest.param(2, 20, 2, 2, 6 / 231, id="two-starts"),
        pytest.param(2, 20, 0, 3, 1.0, id="not-shown"),
        pytest.param(3, 3, 3, 3, 1.0, id="always-shown"),
        pytest.param(0, 3, 3, 3, 1 / 20, id="never-shown-before"),
    ],
)
def test_excess_is_the_upper_tail_of_the_hypergeometric_distribution(
    builds_with: int, builds: int, starts_with: int, starts: int, p: float
) -> None:
    assert excess_p(builds_with, builds, starts_with, starts) == pytest.approx(p)


def test_a_divided_build_does_not_agree() -> None:
    assert is_usual(archived(("one", "aaaa"), ("two", "a")), "a")
    assert not is_usual(archived(("one", "aaaa"), ("two", "ax")), "a")
    six = [("build", "aaaa"), *((f"build {number}", "a") for number in range(4))]
    assert is_usual(archived(*six, ("divided", "ax")), "a")
    assert not is_usual(archived(*six[1:], ("divided", "ax"), ("other", "x")), "a")


def test_so_many_builds_as_the_rules_ask_for_stand_in_for_a_baseline_start() -> None:
    starts = archived(("one", "aa"), ("two", "a"))
    assert replaces_baseline(starts, Rules(archive_builds=2))
    assert not replaces_baseline(starts, Rules(archive_builds=3))
    assert not replaces_baseline(candidate("a"), Rules())


@pytest.mark.parametrize(
    ("letters", "usual"),
    [
        pytest.param("", True, id="no-archive"),
        pytest.param("aaaaa", True, id="five-of-five"),
        pytest.param("aaaax", False, id="four-of-five"),
        pytest.param("aaaaax", True, id="five-of-six"),
        pytest.param("aaaaxx", False, id="four-of-six"),
        pytest.param("a" * 17 + "xxx", True, id="17-of-20"),
        pytest.param("a" * 16 + "xxxx", False, id="16-of-20"),
    ],
)
def test_the_usual_answer_is_that_of_all_builds_or_of_five_sixths_of_many(
    letters: str, *, usual: bool
) -> None:
    assert is_usual(one_each(letters), "a") is usual
