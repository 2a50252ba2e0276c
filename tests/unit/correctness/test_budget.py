# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.correctness.budget import Budget, default_budget


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
