# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.estimate import (
    Estimate,
    EstimateSource,
    Schedule,
    assumed,
    corrected,
    default_budget,
    earlier,
    outlook,
    settles,
    settles_anew,
)
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.schedule import order

A, B = Arm.BASELINE, Arm.CANDIDATE
EIGHT = order(3, 0.05)
SLOW = assumed(requests=100, passes=1, concurrency=2)


def measured(seconds: float) -> Estimate:
    return corrected(SLOW, [(A, seconds)])


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
        "told, a regression cannot be decided (its smallest p would be 0.10, above 0.05)"
    )


def test_a_look_before_the_last_start_decides_no_regression_whatever_its_p() -> None:
    told = outlook(measured(10.0), Schedule(order=EIGHT), 75.0)
    assert told.endswith(
        "a regression cannot be decided: that takes every start, for it is done in one look at the end"
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


def test_what_would_settle_it_is_a_command_to_paste() -> None:
    argv = [
        "correctness",
        "--budget",
        "25m",
        "--candidate",
        "vllm serve m --port {port}",
        "--resume=x",
        "--passes",
        "2",
    ]
    told = settles(
        measured(60.0), Schedule(order=EIGHT, made=(A, B, A)), argv, "my report", reserve_s=12.0
    )
    assert told == (
        "5 more starts, about 5 min 00 s at 1 min 00 s a start (measured in 1 start): "
        "ci-doctor correctness --candidate 'vllm serve m --port {port}' --passes 2 --resume 'my report' --budget 7m"
    )


def test_the_value_of_another_option_is_not_taken_for_an_option() -> None:
    told = settles(
        measured(60.0), Schedule(order=(A,)), ["correctness", "--resume", "--budget", "-v"], "d"
    )
    assert told.endswith("ci-doctor correctness -v --resume d --budget 2m")


def test_a_complete_schedule_is_settled_by_a_new_run_that_makes_more() -> None:
    argv = ["correctness", "--retries", "3", "--resume=old", "--budget", "9m"]
    assert settles_anew(SLOW, EIGHT, argv, 5) == (
        "a new run of up to 8 starts, about 10 min 40 s at 1 min 20 s a start (assumed: 30 s to be ready, 1 s an answer): "
        "ci-doctor correctness --retries 5 --budget 14m"
    )


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [("1", 30.0), ("2", 60.0), ("5", 240.0), ("10", 540.0), ("30", 1620.0), ("240", 12960.0)],
)
def test_the_steps_own_timeout_less_a_margin_is_the_budget(minutes: str, seconds: float) -> None:
    budget = default_budget({"BUILDKITE_TIMEOUT": minutes})
    assert budget is not None
    assert budget[0] == seconds


def test_where_the_budget_comes_from_is_said() -> None:
    budget = default_budget({"BUILDKITE_TIMEOUT": "30"})
    assert budget is not None
    assert budget[1] == (
        "budget 27 min 00 s: the step's timeout of 30 min 00 s (BUILDKITE_TIMEOUT), "
        "less 3 min 00 s for checkout, setup and upload"
    )


@pytest.mark.parametrize("value", [None, "", "false", "0", "-1", "1.5"])
def test_a_step_without_a_timeout_gives_no_budget(value: str | None) -> None:
    assert default_budget({} if value is None else {"BUILDKITE_TIMEOUT": value}) is None
