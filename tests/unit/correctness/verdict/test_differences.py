# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.differences import (
    archive_licenses,
    are_licensed,
    excess_p,
    is_noise,
    is_steady_noise,
    is_usual_in_archive,
    mended,
    places_of,
)
from ci_doctor.correctness.verdict.mix_test import MISSING, pattern, patterns
from ci_doctor.correctness.verdict.starts import (
    Answer,
    ArmStart,
    by_build,
    independent_builds,
    replaces_baseline,
)
from tests.unit.correctness.verdict.test_decide import starts

A, B = Arm.BASELINE, Arm.CANDIDATE
RULES = Rules()


def made(baseline: str, candidate: str, archived: str = "") -> list[ArmStart]:
    """Starts as in test_decide; each archived one is of a build of its own."""
    before = [replace(each, archived=True, build=each.name) for each in starts(archived)]
    return [*before, *starts(baseline, candidate)]


def all_licensed(given: Sequence[ArmStart], rules: Rules = RULES) -> bool:
    return are_licensed(patterns(given, [*given[0].answers]), places_of(given, rules))


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ("x", "x", True),
        # The candidate's first answer is the baseline's: what the baseline gives later is licensed.
        ("x y", "x", True),
        ("x y", "x y", True),
        # It is not: the candidate must vary too, and the baseline must give what it gives.
        ("x", "y", False),
        ("x y", "y", False),
        ("x", "y x", False),
        ("x y", "y x", True),
        ("x y", "y y y y", False),
        # A new answer is licensed by none, however often the baseline varies.
        ("x y z", "x w", False),
        ("x", "w w", False),
        # No answer licenses nothing.
        ("x -", "x -", False),
    ],
)
def test_what_the_baseline_licenses(baseline: str, candidate: str, expected: bool) -> None:
    assert all_licensed(made(baseline, candidate)) is expected


def test_a_mode_made_permanent_is_never_licensed_after_a_first_pair_that_differs() -> None:
    assert not all_licensed(made("x y y y y y", "y y y y y y"))


def test_with_three_baseline_starts_asked_for_all_three_must_agree_with_the_candidate() -> None:
    rules = replace(RULES, least_baselines=3)
    assert all_licensed(made("y y y", "y"), rules)
    assert not all_licensed(made("y y x", "y"), rules)
    assert all_licensed(made("y y y x", "y"), rules)


@pytest.mark.parametrize(
    ("archived", "candidate", "expected"),
    [
        ("6*x", "x", True),
        ("5*x y", "x", True),
        ("4*x 2*y", "x", False),
        ("2*x y", "x", False),
        # A bad archived start excuses nothing.
        ("19*x w", "w", False),
        ("19*x w", "x w", False),
        ("3*x 3*y", "y x", True),
    ],
)
def test_an_archive_licenses_what_its_builds_have_shown(
    archived: str, candidate: str, expected: bool
) -> None:
    assert all_licensed(made("", candidate, archived)) is expected


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


def steady_noise(baseline: str, candidate: str) -> bool:
    given = made(baseline, candidate)
    return is_steady_noise(patterns(given, [*given[0].answers]), places_of(given, RULES))


def test_one_wrong_candidate_start_is_no_noise_of_a_baseline_that_never_varies() -> None:
    assert not steady_noise("8*xxx", "yyy 7*xxx")
    assert not steady_noise("8*xxx", "yxx 7*xxx")
    # ... and a missing answer is no other.
    assert not steady_noise("8*xxx", "-xx 7*xxx")


def test_noise_that_never_repeats_is_the_baseline_s_if_its_starts_are_as_odd() -> None:
    assert steady_noise("axxxx xbxxx xxcxx xxxxx", "xxxdx 3*xxxxx")
    # An answer that comes twice where the baseline never varied is a fault in some starts.
    assert not steady_noise("axxxx xbxxx xxcxx xxxxx", "xxxdx xxxdx 2*xxxxx")
    # A single baseline start in a mode of its own shows no noise.
    assert not steady_noise("aaaxx 3*xxxxx", "xxxdx 3*xxxxx")


def test_a_start_with_far_more_odd_answers_than_the_noise_makes_is_none_of_it() -> None:
    noisy = "a" + 39 * "x" + " x" + "b" + 38 * "x" + " xxc" + 37 * "x" + " " + 40 * "x"
    assert steady_noise(noisy, 39 * "x" + "d " + 40 * "x")
    assert not steady_noise(noisy, 10 * "x" + 30 * "e" + " " + 40 * "x")


def test_a_flake_is_mended_if_the_candidate_always_gives_the_baseline_s_usual_answer() -> None:
    def of(baseline: str, candidate: str) -> list[str]:
        given = made(baseline, candidate)
        return mended(patterns(given, [*given[0].answers]), places_of(given, RULES))

    assert of("3*xa xb xc xd", "6*xa") == ["r1"]
    # A rare answer made permanent mends nothing, and a single odd start is easily the baseline's.
    assert of("3*xa xc xc xd", "6*xc") == []
    assert of("5*xa xb", "6*xa") == []


def archived(*builds: tuple[str | None, str]) -> list[ArmStart]:
    """For each build its archived starts; a letter is a start's answer, `-` is none."""
    given = [(build, letter) for build, letters in builds for letter in letters]
    return [
        replace(answering(A, number, letter), archived=True, build=build)
        for number, (build, letter) in enumerate(given, 1)
    ]


def answering(arm: Arm, number: int, letter: str) -> ArmStart:
    return ArmStart(arm=arm, number=number, answers={"r": None if letter == "-" else letter})


def one_each(letters: str) -> list[ArmStart]:
    """Archived starts of as many builds."""
    return archived(*((f"build {number}", letter) for number, letter in enumerate(letters)))


def candidate(letters: str) -> list[ArmStart]:
    return [answering(B, number, letter) for number, letter in enumerate(letters, 1)]


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


@pytest.mark.parametrize(
    ("builds", "shown", "answer", "expected"),
    [
        pytest.param("x" + "a" * 19, "x", "x", False, id="one-bad-build"),
        pytest.param("xx" + "a" * 18, "x", "x", True, id="two-builds"),
        pytest.param("xx" + "a" * 18, "xaaaaa", "x", True, id="as-rarely"),
        pytest.param("xx" + "a" * 18, "xx", "x", False, id="a-rare-mode-made-permanent"),
        pytest.param("xx" + "a" * 18, "xx----", "x", False, id="no-answer-makes-no-share-smaller"),
        pytest.param("xaxaxaxa", "xxx", "x", True, id="one-half"),
        pytest.param("xaxaxaxa", "aaa", "a", True, id="the-other-half"),
        pytest.param("-----", "-", None, False, id="no-answer"),
    ],
)
def test_an_answer_is_licensed_by_two_builds_to_a_candidate_that_shows_it_as_rarely(
    builds: str, shown: str, answer: Answer, expected: bool
) -> None:
    assert is_licensed(one_each(builds) + candidate(shown), answer) is expected


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


def test_starts_of_today_are_no_builds_of_the_archive() -> None:
    today = [answering(A, 1, "x")]
    assert independent_builds(today) == 0
    assert not is_licensed(today + candidate("x"), "x")


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
