# SPDX-License-Identifier: Apache-2.0
"""Which requests of a search are looked at."""

from ci_doctor.correctness.localise.watched import watched
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import ArmStart


def starts(arm: Arm, *answers: str | None) -> list[ArmStart]:
    return [
        ArmStart(arm=arm, number=number, answers={"r0": "x", "r1": answer})
        for number, answer in enumerate(answers, start=1)
    ]


def test_a_request_that_no_start_of_the_good_end_answers_is_no_noise() -> None:
    bad = starts(Arm.CANDIDATE, "y", "y", "y")

    silent = watched(["r0", "r1"], starts(Arm.BASELINE, None, None, None), bad)
    noisy = watched(["r0", "r1"], starts(Arm.BASELINE, "a", "b", "c"), bad)

    assert (silent.noisy, silent.unanswered) == (0, 1)
    assert (noisy.noisy, noisy.unanswered) == (1, 0)
