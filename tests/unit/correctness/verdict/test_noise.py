# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.decision import VerdictEvidence
from ci_doctor.correctness.verdict.noise import explained_by_noise


def starts(arm: Arm, words: str) -> list[ArmStart]:
    """A start a word, which answered r0, r1 … with its letters; `-` is no answer."""
    made = []
    for number, word in enumerate(words.split(), start=1):
        answers = {f"r{i}": None if letter == "-" else letter for i, letter in enumerate(word)}
        made.append(ArmStart(arm=arm, number=number, answers=answers))
    return made


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ("xxxa xxbx xcxx", "xxxd", True),
        # No more than two baseline starts: what one of them shows alone means nothing.
        ("xxxa xxbx", "xxxd", False),
        # Noise does not repeat itself.
        ("xxxa xxbx xcxx", "xxxd xxxd", False),
        # More than twice what the second noisiest baseline start shows.
        ("xxxa xxbx xxxx", "ddd-", False),
        ("xxxa xxbx xxxx", "dddx", False),
        # One baseline start in a mode of its own excuses nothing.
        ("yyyy xxxx xxxx", "xxxd", False),
        # A missing answer is never excused.
        ("xxxa xxbx xcxx", "xxx-", False),
    ],
)
def test_noise_falls_on_every_start_alike(baseline: str, candidate: str, expected: bool) -> None:
    evidence = VerdictEvidence(
        baseline=starts(Arm.BASELINE, baseline),
        candidate=starts(Arm.CANDIDATE, candidate),
        requests=["r0", "r1", "r2", "r3"],
        complete=True,
        lost=False,
    )
    assert explained_by_noise(evidence) is expected
