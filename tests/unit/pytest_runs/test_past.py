# SPDX-License-Identifier: Apache-2.0
"""Whether earlier runs prove a regression."""

import pytest

from ci_doctor.pytest_runs.past import PastJob, highest_chance, proof_of


def job(distance: int, passed: bool) -> PastJob:
    at = f"2026-11-{28 - distance:02}T10:00:00.000Z"
    return PastJob(distance=distance, commit=f"{distance}" * 40, at=at, passed=passed, build=7)


BASE, BEFORE, LONG_BEFORE = job(0, True), job(1, True), job(4, True)


@pytest.mark.parametrize(
    ("jobs", "failures", "is_regression", "text"),
    [
        ([], 3, False, "no run of it at the base"),
        ([job(0, False)], 3, False, "it failed in its only job at the base"),
        ([LONG_BEFORE] * 99, 3, False, "it last passed 4 commits before the base: no proof"),
        ([BASE] * 98 + [job(2, False)], 3, False, "now and then at the base: 1 of 99 jobs"),
        ([BASE] * 50 + [job(0, False)], 9, False, "now and then at the base: 1 of 51 jobs"),
        # Three failures: 1.56 % after three passes, 0.84 % after four.
        ([BASE, BEFORE, BEFORE], 3, False, "3 passed jobs, then 3 failed attempts may be an acc"),
        ([BASE, BEFORE, BEFORE, BEFORE], 3, True, "it passed at the base 000000000000 (2026-11-28"),
        ([BASE] * 37, 1, True, "build 7); 37 passed jobs, then 1 failed attempt, which no"),
        ([BASE] * 36, 1, False, "1 % is asked for"),
    ],
)
def test_enough_passes_at_the_base_itself_and_no_failure_prove_a_regression(
    jobs: list[PastJob], failures: int, is_regression: bool, text: str
) -> None:
    proof = proof_of(jobs, failures)

    assert proof.is_regression is is_regression
    assert text in proof.text


def test_no_rate_of_failure_makes_the_row_likelier() -> None:
    highest = highest_chance(4, 3)

    rates = [step / 1000 for step in range(1001)]
    assert max((1 - rate) ** 4 * rate**3 for rate in rates) == pytest.approx(highest, rel=1e-4)
    assert highest == pytest.approx(0.00839, rel=1e-2)
