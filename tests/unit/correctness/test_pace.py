# SPDX-License-Identifier: Apache-2.0
"""The budget of a run, how many starts fit, and the run that would decide an undecided one."""

import pytest
from msgspec.structs import replace

from ci_doctor.correctness.pace import Budget, Pace, command_line, default_budget
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


def test_options_take_the_place_of_those_that_stand_there() -> None:
    argv = ["correctness", "--only", "a", "--only=b", "--passes", "2", "--budget", "9m"]
    made = command_line(argv, ["--passes", "1"], ["--only"])
    assert made == "ci-doctor correctness --passes 1"


def test_the_value_of_a_new_option_removes_no_word() -> None:
    argv = ["correctness", "--candidate", "r1", "--concurrency", "40"]
    made = command_line(argv, ["--only", "r1"])
    assert made == "ci-doctor correctness --candidate r1 --concurrency 40 --only r1"


A, B = Arm.BASELINE, Arm.CANDIDATE
PACE = Pace(rules=Rules(max_starts=10), archived=False, began=0.0, deadline=1000.0)
WHOLE = result("A1", "one")


def took(*starts: tuple[str, float]) -> list[StartResult]:
    return [replace(result(name, "one"), duration_s=seconds) for name, seconds in starts]


def every_start(pace: Pace, seconds: float = 60.0) -> list[StartResult]:
    numbers = dict.fromkeys(Arm, 0)
    names = []
    for arm in pace.order:
        numbers[arm] += 1
        names.append(f"{arm.letter}{numbers[arm]}")
    return took(*((name, seconds) for name in names))


def test_each_arm_takes_the_median_of_its_own_starts_or_else_of_the_others() -> None:
    own = PACE.measured(took(("A1", 10.0), ("A2", 90.0), ("A3", 12.0)))
    assert own == {A: 12.0, B: 12.0}
    both = took(("A1", 10.0), ("B1", 50.0))
    assert PACE.measured(both) == {A: 10.0, B: 50.0}
    assert "starts of 30.0 s fit" in PACE.outlook(both, 0.0)


def test_a_start_that_died_was_cut_short_or_warmed_up_measures_nothing() -> None:
    nothing = [
        result("B1", "one", failure=DEATH),
        result("A2", "one", cut_short=True),
        result("A0", "one", warm_up=True),
    ]
    assert PACE.measured(nothing) is None
    assert PACE.outlook(nothing, 0.0) == ""


@pytest.mark.parametrize(
    ("made", "archived", "least_a", "least_b", "needs"),
    [
        ("", False, 1, 1, "2 to 16"),
        ("A1", False, 1, 1, "1 to 15 more"),
        ("", False, 1, 2, "3 to 16"),
        ("", True, 3, 1, "1 to 16"),
        ("A1 A2", False, 2, 1, "1 to 14 more"),
    ],
)
def test_how_many_starts_a_verdict_takes(
    made: str, archived: bool, least_a: int, least_b: int, needs: str
) -> None:
    rules = Rules(least_baselines=least_a, least_candidates=least_b)
    pace = Pace(rules=rules, archived=archived, began=0.0, deadline=1500.0)
    results = took(*((name, 1.0) for name in made.split()))
    names = {A: "plain", B: "router, worker"}
    assert pace.beginning(names, 1, results) == (
        f"plain (baseline) and router, worker (candidate): {needs} starts, 1 request each, "
        "budget 25 min 00 s"
    )


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (460.0, "9 min 00 s left of 16 min 40 s: about 9 of at most 9 more starts of 1 min 00 s fit"),
        (461.0, "8 min 59 s left of 16 min 40 s: about 8 of at most 9 more starts of 1 min 00 s fit"),
        (2000.0, "0.0 s left of 16 min 40 s: about 0 of at most 9 more starts of 1 min 00 s fit"),
    ],
)  # fmt: skip
def test_how_many_starts_still_fit(now: float, told: str) -> None:
    assert PACE.outlook(took(("A1", 60.0)), now) == told


def test_what_would_settle_it_is_a_command_to_paste() -> None:
    argv = ["correctness", "--budget", "25m", "--candidate", "serve m --port {port}", "--resume=x"]
    assert PACE.next_run(took(("A1", 60.0)), argv, "my report", 12.0) == (
        "up to 9 more starts, about 9 min 00 s at 1 min 00 s a start",
        "ci-doctor correctness --candidate 'serve m --port {port}' --resume 'my report' --budget 12m",
    )


def test_without_a_start_that_came_to_its_end_the_budget_is_doubled() -> None:
    told = PACE.next_run([], ["correctness", "--resume", "--budget", "-v"], "d", 0.0)
    assert told == (
        "up to 10 more starts",
        "ci-doctor correctness -v --resume d --budget 34m",
    )


def test_a_run_that_made_every_start_is_resumed_with_twice_as_many() -> None:
    argv = ["correctness", "--max-starts=10", "--report-dir=dir"]
    assert PACE.next_run(every_start(PACE), argv, "dir", 0.0) == (
        "up to 10 more starts, about 10 min 00 s at 1 min 00 s a start",
        "ci-doctor correctness --resume dir --max-starts 20 --budget 13m",
    )


def test_starts_made_out_of_turn_are_not_made_again() -> None:
    many = took(*((f"A{number}", 60.0) for number in range(1, 9)))
    left = sum(arm is B for arm in PACE.order)
    cost, _ = PACE.next_run(many, ["correctness"], "dir", 0.0)
    assert cost.startswith(f"up to {left} more starts, ")


def test_under_the_policy_any_it_is_made_anew() -> None:
    pace = replace(PACE, rules=Rules(policy=Policy.ANY))
    cost, command = pace.next_run(every_start(pace), ["correctness"], "dir", 12.0)
    assert cost.startswith("a new run of up to 10 starts, about 10 min 00 s")
    assert command.startswith("ci-doctor correctness --retries 5 --budget")


def test_the_first_start_measures_how_long_the_run_may_take() -> None:
    slow = replace(WHOLE, duration_s=300.0)
    # 10 starts of 300 s, a quarter more, and what is kept for the report.
    assert PACE.measured_deadline([slow]) == 10 * 300.0 * 1.25 + 12.0
    assert PACE.measured_deadline([replace(WHOLE, duration_s=1.0)]) == PACE.deadline
    assert PACE.measured_deadline([replace(slow, cut_short=True)]) == PACE.deadline
