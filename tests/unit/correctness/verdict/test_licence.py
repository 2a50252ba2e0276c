# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.differences import places_of
from ci_doctor.correctness.verdict.licence import are_licensed, is_noise, is_steady_noise, mended
from ci_doctor.correctness.verdict.patterns import patterns
from tests.unit.correctness.verdict.test_decide import starts

A, B = Arm.BASELINE, Arm.CANDIDATE
RULES = Rules()


def made(baseline: str, candidate: str, archived: str = "") -> list[ArmStart]:
    """Starts as in test_decide; each archived one is of a build of its own."""
    before = [replace(each, archived=True, build=each.name) for each in starts(archived)]
    return [*before, *starts(baseline, candidate)]


def licensed(given: Sequence[ArmStart], rules: Rules = RULES) -> bool:
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
    assert licensed(made(baseline, candidate)) is expected


def test_a_mode_made_permanent_is_never_licensed_after_a_first_pair_that_differs() -> None:
    assert not licensed(made("x y y y y y", "y y y y y y"))


def test_with_three_baseline_starts_asked_for_all_three_must_agree_with_the_candidate() -> None:
    rules = replace(RULES, least_baselines=3)
    assert licensed(made("y y y", "y"), rules)
    assert not licensed(made("y y x", "y"), rules)
    assert licensed(made("y y y x", "y"), rules)


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
    assert licensed(made("", candidate, archived)) is expected


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
