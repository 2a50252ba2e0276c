# SPDX-License-Identifier: Apache-2.0
"""Which starts gave equal answers."""

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import Answer, ArmStart
from ci_doctor.correctness.verdict.patterns import MISSING, among, pattern, patterns

REQUESTS = ("r1", "r2", "r3", "r4")
ANSWERS: tuple[dict[str, Answer], ...] = (
    {"r1": "x", "r2": "x", "r3": None, "r4": None},
    {"r1": "x", "r2": "y", "r3": "a", "r4": None},
    {"r1": "x", "r2": "x", "r3": "b", "r4": "c"},
    {"r1": "x", "r2": "z", "r3": "a"},
)
STARTS = [
    ArmStart(arm=Arm.BASELINE, number=number, answers=answers)
    for number, answers in enumerate(ANSWERS, 1)
]


def test_classes_are_numbered_as_they_appear_and_a_missing_answer_has_its_own() -> None:
    assert pattern(["b", "a", None, "b", "c"]) == (0, 1, MISSING, 0, 2)
    assert pattern([None, "a"]) == (MISSING, 0)


def test_requests_on_which_the_same_starts_agree_are_one_pattern() -> None:
    assert patterns(STARTS, REQUESTS) == {
        (0, 0, 0, 0): ["r1"],
        (0, 1, 0, 2): ["r2"],
        (MISSING, 0, 1, 0): ["r3"],
        (MISSING, MISSING, 0, MISSING): ["r4"],
    }


def test_the_patterns_of_some_starts_are_those_of_these_starts_alone() -> None:
    everything = patterns(STARTS, REQUESTS)

    for places in ([1, 3], [2, 0], [3, 2, 1, 0], [0]):
        chosen = [STARTS[place] for place in places]
        assert among(everything, places) == patterns(chosen, REQUESTS)


def test_a_request_that_nobody_answered_is_missing_everywhere() -> None:
    assert patterns(STARTS[:2], ["r4", "unknown"]) == {(MISSING, MISSING): ["r4", "unknown"]}
