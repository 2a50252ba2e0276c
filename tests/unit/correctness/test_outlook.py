# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.estimate import Estimate, assumed, corrected
from ci_doctor.correctness.outlook import Schedule, outlook
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.schedule import order

A, B = Arm.BASELINE, Arm.CANDIDATE
EIGHT = order(3, 0.05)
SLOW = assumed(requests=100, passes=1, concurrency=2)


def measured(seconds: float) -> Estimate:
    return corrected(SLOW, [(A, seconds)])


@pytest.mark.parametrize(
    ("made", "archived", "least", "fewest"),
    [
        ((), 0, 1, 2),
        ((A,), 0, 1, 1),
        ((), 0, 2, 5),
        ((A, B), 0, 2, 3),
        ((), 3, 1, 2),
        ((A, B), 0, 1, 1),
    ],
)
def test_the_fewest_starts_that_a_verdict_takes(
    made: tuple[Arm, ...], archived: int, least: int, fewest: int
) -> None:
    schedule = Schedule(order=EIGHT, made=made, archived=archived, least_candidates=least)
    assert schedule.fewest == fewest


def test_starts_made_out_of_turn_are_not_made_again() -> None:
    assert Schedule(order=(A, B, A, A, B), made=(A, A, B)).remaining == (A, B)
    assert Schedule(order=(A, B), made=(A, B, A)).remaining == ()


@pytest.mark.parametrize(
    ("sizes", "p"), [("ABAAB", 1 / 10), ("ABAABABA", 1 / 56), ("AABB", 2 / 6), ("AAABBB", 2 / 20), ("AAA", 1.0), ("AB", 1.0)]
)  # fmt: skip
def test_the_smallest_p_is_that_of_full_separation(sizes: str, p: float) -> None:
    arms = tuple(A if letter == "A" else B for letter in sizes)
    assert Schedule(order=arms).smallest_p(len(arms)) == pytest.approx(p)
    assert Schedule(order=(), made=arms).smallest_p(0) == pytest.approx(p)


def test_archived_starts_count_for_the_smallest_p() -> None:
    assert Schedule(order=(B,), archived=20).smallest_p(1) == pytest.approx(1 / 21)


def test_the_whole_schedule_fits() -> None:
    assert outlook(SLOW, Schedule(order=EIGHT), 1440.0) == (
        "24 min 00 s left: about 18 starts of 1 min 20 s fit (assumed: 30 s to be ready, 1 s an answer); "
        "the schedule needs 2 to 8"
    )


def test_a_schedule_under_way_needs_fewer_more() -> None:
    told = outlook(measured(7.0), Schedule(order=EIGHT, made=(A,)), 50.0)
    assert (
        told
        == "50.0 s left: about 7 starts of 7.0 s fit (measured in 1 start); the schedule needs 1 to 7 more"
    )


def test_too_few_starts_leave_a_regression_undecided() -> None:
    assert outlook(measured(10.0), Schedule(order=EIGHT), 55.0) == (
        "55.0 s left: about 5 of 8 starts of 10.0 s fit (measured in 1 start): equal answers and a flaky baseline can be "
        "reported, a regression cannot be decided (its smallest p would be 0.10, above 0.05)"
    )


def test_a_look_before_the_last_start_decides_no_regression_whatever_its_p() -> None:
    told = outlook(measured(10.0), Schedule(order=EIGHT), 75.0)
    assert told.endswith(
        "a regression cannot be decided: that takes every start, because it is decided in one look at the end"
    )


def test_a_single_start_decides_nothing() -> None:
    told = outlook(measured(10.0), Schedule(order=EIGHT), 15.0)
    assert "about 1 of 8 starts of 10.0 s fits" in told
    assert told.endswith(
        "nothing can be decided, not even that the answers are equal: that takes 2"
    )


def test_a_p_value_is_never_told_smaller_than_it_is() -> None:
    told = outlook(measured(10.0), Schedule(order=(A, A, B, B, B), alpha=0.001), 40.0)
    assert "its smallest p would be 0.34," in told


def test_no_time_at_all_is_told_as_none() -> None:
    assert outlook(SLOW, Schedule(order=EIGHT), -3.0).startswith(
        "0.0 s left: whether a start fits is not known before the first"
    )
    assert outlook(corrected(SLOW, [(A, 80.0)]), Schedule(order=EIGHT), -3.0).startswith(
        "0.0 s left: about 0 of 8 starts"
    )
