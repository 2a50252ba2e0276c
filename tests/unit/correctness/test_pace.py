# SPDX-License-Identifier: Apache-2.0
"""Tests of budget, estimates and forecasts."""

# SPDX-License-Identifier: Apache-2.0
import pytest

# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace

# SPDX-License-Identifier: Apache-2.0
# SPDX-License-Identifier: Apache-2.0
# SPDX-License-Identifier: Apache-2.0
# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.pace import (
    Budget,
    Estimate,
    EstimateSource,
    Pace,
    Schedule,
    assumed,
    beginning,
    command_line,
    corrected,
    default_budget,
    earlier,
    extended_run,
    new_run,
    outlook,
    resumed_run,
)
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Arm, Policy, Rules
from tests.unit.correctness.experiments import DEATH, result


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


def test_a_busy_machine_keeps_more_of_the_budget_for_the_report() -> None:
    quiet = Budget(began=100.0, seconds=6.0)
    busy = Budget(began=100.0, seconds=6.0, spent_s=1.5)
    assert (quiet.reserve_s, busy.reserve_s) == (2.0, 3.5)
    assert (quiet.deadline, busy.deadline) == (104.0, 102.5)
    assert quiet.grace_s == busy.grace_s, "processes get no longer to end by themselves"


def test_a_long_budget_keeps_the_same_on_every_machine() -> None:
    for spent_s in (0.0, 30.0):
        assert Budget(began=0.0, seconds=1500.0, spent_s=spent_s).reserve_s == 12.0


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


def test_options_take_the_place_of_those_that_stand_there() -> None:
    argv = ["correctness", "--only", "a", "--only=b", "--passes", "2", "--budget", "9m"]
    made = command_line(argv, ["--passes", "1"], ["--only"])
    assert made == "ci-doctor correctness --passes 1"


def test_the_value_of_a_new_option_removes_no_word() -> None:
    argv = ["correctness", "--candidate", "r1", "--concurrency", "40"]
    made = command_line(argv, ["--only", "r1"])
    assert made == "ci-doctor correctness --candidate r1 --concurrency 40 --only r1"


A, B = Arm.BASELINE, Arm.CANDIDATE


def measured(seconds: float) -> Estimate:
    return corrected(SLOW, [(A, seconds)])


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
    sentence = str(resumed_run(measured(60.0), (A, B, A, B, A), argv, "my report", reserve_s=12.0))
    assert sentence == (
        "up to 5 more starts, about 5 min 00 s at 1 min 00 s a start (measured in 1 start): "
        "ci-doctor correctness --candidate 'vllm serve m --port {port}' --passes 2 --resume 'my report' --budget 7m"
    )


def test_the_value_of_another_option_is_not_taken_for_an_option() -> None:
    sentence = str(
        resumed_run(measured(60.0), (A,), ["correctness", "--resume", "--budget", "-v"], "d")
    )
    assert sentence.endswith("ci-doctor correctness -v --resume d --budget 2m")


def test_a_run_that_made_every_start_goes_on_to_a_larger_limit() -> None:
    argv = ["correctness", "--max-starts", "20", "--report-dir=old", "--budget", "9m"]
    assert str(extended_run(measured(60.0), (A, B) * 10, argv, "old", 40)) == (
        "up to 20 more starts, about 20 min 00 s at 1 min 00 s a start (measured in 1 start): "
        "ci-doctor correctness --resume old --max-starts 40 --budget 26m"
    )


def test_the_policy_any_is_settled_by_a_new_run_that_makes_more() -> None:
    argv = ["correctness", "--retries", "3", "--resume=old", "--budget", "9m"]
    assert str(new_run(SLOW, (A, B) * 4, argv, 5)) == (
        "a new run of up to 8 starts, about 10 min 40 s at 1 min 20 s a start (assumed: 30 s to be ready, 1 s an answer): "
        "ci-doctor correctness --retries 5 --budget 14m"
    )


A, B = Arm.BASELINE, Arm.CANDIDATE
TWENTY = (A, B, *(B, A) * 9)


def planned(made: int = 0) -> Schedule:
    return Schedule(order=TWENTY, made=TWENTY[:made])


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


def test_if_all_fit_the_range_is_said_before_the_first_start() -> None:
    assert outlook(SLOW, planned(), 1680.0, 1700.0) == (
        "28 min 00 s left of 28 min 20 s: about 21 starts of 1 min 20 s fit "
        "(assumed: 30 s to be ready, 1 s an answer); the run takes 2 to 20"
    )


def test_a_run_begins_with_what_it_starts_and_its_budget() -> None:
    names = {A: "plain", B: "router, worker"}
    assert beginning(names, planned(), 1, 1500.0) == (
        "plain (baseline) and router, worker (candidate): 2 to 20 starts, 1 request each, budget 25 min 00 s"
    )
    assert "1 to 14 more starts, 100 requests each" in beginning(names, planned(6), 100, 1500.0)


def test_under_way_it_says_how_many_more() -> None:
    assert outlook(measured(7.0), planned(6), 110.0, 1500.0) == (
        "1 min 50 s left of 25 min 00 s: about 15 starts of 7.0 s fit (measured in 1 start); "
        "the run takes 1 to 14 more"
    )


def test_too_few_starts_are_counted() -> None:
    assert outlook(measured(10.0), planned(2), 75.0, 100.0) == (
        "1 min 15 s left of 1 min 40 s: about 7 of 18 more starts of 10.0 s fit (measured in 1 start)"
    )


def test_a_single_start_is_said_as_one() -> None:
    told = outlook(measured(10.0), planned(), 15.0, 100.0)
    assert "about 1 of 20 starts of 10.0 s fits" in told


def test_no_time_at_all_is_told_as_none() -> None:
    assert outlook(SLOW, planned(), -3.0, 9.0).startswith(
        "0.0 s left of 9.0 s: whether a start fits is not known before the first"
    )
    assert outlook(measured(80.0), planned(), -3.0, 9.0).startswith(
        "0.0 s left of 9.0 s: about 0 of 20 starts"
    )


PACE = Pace(
    prior=assumed(100, 1, 2), rules=Rules(max_starts=10), archived=False, began=0.0, deadline=1000.0
)
WHOLE = result("A1", "one")


def every_start(pace: Pace) -> list[StartResult]:
    made = []
    numbers = dict.fromkeys(pace.order, 0)
    for arm in pace.order:
        numbers[arm] += 1
        made.append(result(f"{arm.letter}{numbers[arm]}", "one"))
    return made


def test_a_start_that_died_or_was_cut_short_measures_nothing() -> None:
    dead = result("B1", "one", failure=DEATH)
    cut = result("A2", "one", cut_short=True)
    assert "(assumed:" in PACE.outlook([dead, cut], 0.0)
    assert "(measured in 1 start)" in PACE.outlook([WHOLE, dead, cut], 0.0)


def test_the_time_left_stands_beside_the_whole() -> None:
    told = PACE.outlook([WHOLE], 400.0)
    assert told.startswith("10 min 00 s left of 16 min 40 s")
    assert told.endswith("the run takes 1 to 9 more")


def test_a_run_with_starts_left_is_resumed_as_it_is() -> None:
    told = str(PACE.next_run([WHOLE], ["correctness"], "dir", 12.0))
    assert told.startswith("up to 9 more starts")
    assert "ci-doctor correctness --resume dir --budget" in told


def test_a_run_that_made_every_start_is_resumed_with_twice_as_many() -> None:
    told = str(PACE.next_run(every_start(PACE), ["correctness", "--max-starts=10"], "dir", 12.0))
    assert told.startswith("up to 10 more starts")
    assert "ci-doctor correctness --resume dir --max-starts 20 --budget" in told


def test_under_the_policy_any_it_is_made_anew() -> None:
    pace = replace(PACE, rules=Rules(policy=Policy.ANY))
    assert "look" not in pace.outlook([WHOLE], 0.0)
    told = str(pace.next_run(every_start(pace), ["correctness"], "dir", 12.0))
    assert "ci-doctor correctness --retries 5 --budget" in told


def test_the_first_start_measures_how_long_the_run_may_take() -> None:
    slow = replace(WHOLE, duration_s=300.0)
    # 10 starts of 300 s, a quarter more, and what is kept for the report.
    assert PACE.measured_deadline([slow]) == 10 * 300.0 * 1.25 + 12.0
    assert PACE.measured_deadline([replace(WHOLE, duration_s=1.0)]) == PACE.deadline
    assert PACE.measured_deadline([replace(slow, cut_short=True)]) == PACE.deadline
