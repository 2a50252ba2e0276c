# SPDX-License-Identifier: Apache-2.0
from msgspec.structs import replace

from ci_doctor.correctness.estimate import assumed
from ci_doctor.correctness.pace import Pace
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.settings import Policy, Rules
from tests.unit.correctness.experiments import DEATH, result

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


def test_the_time_left_stands_beside_the_whole_and_the_next_look() -> None:
    told = PACE.outlook([WHOLE], 400.0)
    assert told.startswith("10 min 00 s left of 16 min 40 s")
    assert told.endswith("look 1 of 1 at 10 starts, after 9 more")


def test_a_run_with_starts_left_is_resumed_as_it_is() -> None:
    told = PACE.next_run([WHOLE], ["correctness"], "dir", 12.0)
    assert told.startswith("up to 9 more starts")
    assert "ci-doctor correctness --resume dir --budget" in told


def test_a_run_that_made_every_start_is_resumed_with_twice_as_many() -> None:
    told = PACE.next_run(every_start(PACE), ["correctness", "--max-starts=10"], "dir", 12.0)
    assert told.startswith("up to 10 more starts")
    assert "ci-doctor correctness --resume dir --max-starts 20 --budget" in told


def test_under_the_policy_any_it_is_made_anew() -> None:
    pace = replace(PACE, rules=Rules(policy=Policy.ANY))
    assert "look" not in pace.outlook([WHOLE], 0.0)
    told = pace.next_run(every_start(pace), ["correctness"], "dir", 12.0)
    assert "ci-doctor correctness --retries 5 --budget" in told


def test_the_first_start_measures_how_long_the_run_may_take() -> None:
    slow = replace(WHOLE, duration_s=300.0)
    # 10 starts of 300 s, a quarter more, and what is kept for the report.
    assert PACE.measured_deadline([slow]) == 10 * 300.0 * 1.25 + 12.0
    assert PACE.measured_deadline([replace(WHOLE, duration_s=1.0)]) == PACE.deadline
    assert PACE.measured_deadline([replace(slow, cut_short=True)]) == PACE.deadline
