# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.estimate import Estimate, assumed, corrected
from ci_doctor.correctness.outlook import Schedule, outlook
from ci_doctor.correctness.settings import Arm

A, B = Arm.BASELINE, Arm.CANDIDATE
TWENTY = (A, B, *(B, A) * 9)
LOOKS = (10, 16, 20)
SLOW = assumed(requests=100, passes=1, concurrency=2)


def measured(seconds: float) -> Estimate:
    return corrected(SLOW, [(A, seconds)])


def planned(made: int = 0) -> Schedule:
    return Schedule(order=TWENTY, made=TWENTY[:made], looks=LOOKS)


@pytest.mark.parametrize(
    ("made", "archived", "least_a", "least_b", "fewest"),
    [
        ((), False, 1, 1, 2),
        ((A,), False, 1, 1, 1),
        ((), False, 1, 2, 3),
        ((A, B), False, 1, 2, 1),
        ((), False, 3, 1, 6),
        ((), True, 1, 1, 2),
        ((), True, 3, 1, 2),
        ((A, B), False, 1, 1, 1),
    ],
)
def test_the_fewest_starts_that_a_verdict_takes(
    made: tuple[Arm, ...], archived: bool, least_a: int, least_b: int, fewest: int
) -> None:
    schedule = Schedule(
        order=TWENTY,
        made=made,
        archived=archived,
        least_baselines=least_a,
        least_candidates=least_b,
    )
    assert schedule.fewest == fewest


def test_starts_made_out_of_turn_are_not_made_again() -> None:
    assert Schedule(order=(A, B, A, A, B), made=(A, A, B)).remaining == (A, B)
    assert Schedule(order=(A, B), made=(A, B, A)).remaining == ()


def test_the_next_look_is_the_first_that_lies_ahead() -> None:
    assert [planned(made).next_look for made in (0, 9, 10, 15, 16, 20)] == [0, 0, 1, 1, 2, None]


def test_if_all_fit_the_looks_are_listed_before_the_first_start() -> None:
    assert outlook(SLOW, planned(), 1680.0, 1700.0) == (
        "28 min 00 s left of 28 min 20 s: about 21 starts of 1 min 20 s fit "
        "(assumed: 30 s to be ready, 1 s an answer); the run takes 2 to 20; "
        "looks at 10, 16 and 20 starts"
    )


def test_under_way_the_next_look_is_named() -> None:
    assert outlook(measured(7.0), planned(6), 110.0, 1500.0) == (
        "1 min 50 s left of 25 min 00 s: about 15 starts of 7.0 s fit (measured in 1 start); "
        "the run takes 1 to 14 more; look 1 of 3 at 10 starts, after 4 more"
    )


def test_after_the_last_look_none_is_named() -> None:
    schedule = Schedule(order=(*TWENTY, A), made=TWENTY, looks=LOOKS)
    assert outlook(measured(7.0), schedule, 20.0, 60.0).endswith("; the run takes 1 more")


def test_too_few_starts_leave_a_regression_undecided() -> None:
    assert outlook(measured(10.0), planned(2), 75.0, 100.0) == (
        "1 min 15 s left of 1 min 40 s: about 7 of 18 more starts of 10.0 s fit (measured in 1 start): "
        "equal answers and a flaky baseline can be reported, "
        "a regression cannot be decided before 10 starts"
    )


def test_some_looks_may_fit_and_others_not() -> None:
    told = outlook(measured(10.0), planned(2), 85.0, 100.0)
    assert told.endswith("stays undecided; look 1 of 3 at 10 starts, after 8 more")


def test_a_single_start_decides_nothing() -> None:
    told = outlook(measured(10.0), planned(), 15.0, 100.0)
    assert "about 1 of 20 starts of 10.0 s fits" in told
    assert told.endswith(
        "nothing can be decided, not even that the answers are equal: that takes 2"
    )


def test_a_policy_without_looks_decides_no_regression_early() -> None:
    told = outlook(measured(10.0), Schedule(order=(A, B, A, B)), 25.0, 100.0)
    assert told.endswith("a regression cannot be decided")


def test_no_time_at_all_is_told_as_none() -> None:
    assert outlook(SLOW, planned(), -3.0, 9.0).startswith(
        "0.0 s left of 9.0 s: whether a start fits is not known before the first"
    )
    assert outlook(measured(80.0), planned(), -3.0, 9.0).startswith(
        "0.0 s left of 9.0 s: about 0 of 20 starts"
    )
