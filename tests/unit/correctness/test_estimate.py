# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.estimate import EstimateSource, assumed, corrected, earlier
from ci_doctor.correctness.settings import Arm

A, B = Arm.BASELINE, Arm.CANDIDATE
SLOW = assumed(requests=100, passes=1, concurrency=2)


def test_nothing_known_is_said_to_be_assumed() -> None:
    assert SLOW.start_s == {A: 80.0, B: 80.0}
    assert (SLOW.source, SLOW.basis) == (
        EstimateSource.ASSUMED,
        "assumed: 30 s to be ready, 1 s an answer",
    )
    assert assumed(requests=3, passes=2, concurrency=40).start_s[A] == 32.0


def test_an_earlier_run_is_better_than_an_assumption() -> None:
    known = earlier([(A, 10.0), (B, 30.0)])
    assert known is not None
    assert (known.start_s, known.source) == ({A: 10.0, B: 30.0}, EstimateSource.EARLIER)
    assert earlier([]) is None


def test_each_arm_is_corrected_by_the_median_of_its_own_starts_or_else_of_the_others() -> None:
    assert corrected(SLOW, []) is SLOW
    assert corrected(SLOW, [(A, 10.0), (A, 90.0), (A, 12.0)]).start_s == {A: 12.0, B: 12.0}
    both = corrected(SLOW, [(A, 10.0), (B, 50.0)])
    assert (both.start_s, both.source, str(both)) == (
        {A: 10.0, B: 50.0},
        EstimateSource.MEASURED,
        "10.0 s (baseline) and 50.0 s (candidate)",
    )


@pytest.mark.parametrize(
    ("left_s", "count"), [(-1.0, 0), (9.9, 0), (10.0, 1), (59.9, 1), (60.0, 2), (1000.0, 3)]
)
def test_starts_fit_one_after_the_other(left_s: float, count: int) -> None:
    assert corrected(SLOW, [(A, 10.0), (B, 50.0)]).fitting((A, B, A), left_s) == count
