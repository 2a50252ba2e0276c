# SPDX-License-Identifier: Apache-2.0
"""Which kind a plan names in a world where the cause is known, and how rarely it names a wrong one."""

import math
import random

import pytest

from ci_doctor.pytest_runs.explanation import FlakyKind
from ci_doctor.pytest_runs.trial import (
    WRONG_KIND_AT_MOST,
    BudgetSpent,
    Ending,
    FlakyTrial,
    LeftItem,
    Suspect,
    TrialResult,
)
from ci_doctor.pytest_runs.trial_plan import PLAIN_RUNS, conditions, explain
from tests.unit.pytest_runs.trial_world import TARGET, bound, names, play


def certain(is_failure: bool) -> float:
    return 1.0 if is_failure else 0.0


@pytest.mark.parametrize(
    ("count", "share"), [(1, 0.0), (2, 1.0), (7, 0.37), (1000, 0.0), (1000, 0.37)]
)
def test_the_polluter_among_1000_tests_takes_at_most_twice_log2_and_four_runs(
    count: int, share: float
) -> None:
    before = names(count)
    polluter = before[int(share * (count - 1))]

    played = play(lambda trial: certain(polluter in trial.before), before=before)

    assert (played.explanation.kind, played.explanation.culprit) == (FlakyKind.STATE, polluter)
    # The runs that follow ask what the polluter leaves, and for a simpler command.
    until_confirmed = [trial for trial in played.trials if trial.restore is None][:-2]
    if count == 1000:
        assert len(until_confirmed) <= 2 * math.log2(count) + 4


def test_a_confirmed_polluter_is_named_if_the_time_ends_while_its_items_are_tried() -> None:
    before = names(8)
    items = tuple(LeftItem(f"state:shop.{number}", "a sentence") for number in range(64))
    shown = TrialResult(ending=Ending.PASSED, left=items)

    def chance(trial: FlakyTrial) -> float:
        return certain(before[3] in trial.before and items[9].id not in (trial.restore or ()))

    full = play(chance, before=before, shown=shown)
    first = next(index for index, trial in enumerate(full.trials) if trial.restore)
    cut = play(chance, before=before, shown=shown, most=first + 2).explanation

    assert full.explanation.left == ("a sentence",)
    assert (cut.kind, cut.culprit, cut.left) == (FlakyKind.STATE, before[3], ())
    assert not cut.is_searched


def test_a_pair_of_polluters_that_are_needed_together_is_found() -> None:
    before = names(16)
    needed = {before[2], before[11]}

    played = play(lambda trial: certain(needed <= set(trial.before)), before=before)

    assert played.explanation.culprit == f"{before[2]}, {before[11]}"


def test_the_condition_that_fails_is_the_cause_even_if_the_control_fails() -> None:
    found = play(lambda trial: certain(trial.hash_seed == 0)).explanation

    assert found.culprit == "PYTHONHASHSEED=0"
    assert found.cause is not None
    assert found.cause.hash_seed == 0
    assert found.expected is Ending.FAILED


def test_a_brittle_test_needs_its_state_setter() -> None:
    before = names(50)

    played = play(lambda trial: certain(before[20] not in trial.before), before=before)

    found = played.explanation
    assert (found.kind, found.culprit) == (FlakyKind.BRITTLE, before[20])
    assert found.expected is Ending.PASSED


def test_a_file_that_only_has_to_be_imported_is_named() -> None:
    before = ("tests/test_a.py::test_1", "tests/test_b.py::test_2")

    def chance(trial: FlakyTrial) -> float:
        files = {each.partition("::")[0] for each in (*trial.before, *trial.collect)}
        return certain("tests/test_a.py" in files)

    found = play(chance, before=before).explanation

    assert (found.kind, found.culprit) == (FlakyKind.IMPORT, "tests/test_a.py")


@pytest.mark.parametrize(
    ("kind", "chance"),
    [
        (FlakyKind.EARLIER_RUN, lambda trial: certain(bool(trial.earlier))),
        (FlakyKind.HASH_SEED, lambda trial: certain((trial.hash_seed or 0) % 3 == 2)),
        (FlakyKind.HASH_SEED, lambda trial: certain((trial.hash_seed or 0) % 3 == 0)),
        (FlakyKind.RANDOM_SEED, lambda trial: certain((trial.seed or 0) == 17)),
        (FlakyKind.TIME_ZONE, lambda trial: certain(trial.zone == "Asia/Kolkata")),
        (FlakyKind.CLOCK, lambda trial: 0.9 if trial.boundary == "midnight" else 0.01),
        (FlakyKind.LOAD, lambda trial: 0.95 if trial.slow else 0.02),
        (FlakyKind.PORT, lambda trial: certain(bool(trial.occupy))),
    ],
)
def test_a_condition_that_decides_the_ending_is_named(kind: FlakyKind, chance: object) -> None:
    played = play(chance, shown=bound(5000))  # type: ignore[arg-type]

    assert played.explanation.kind is kind


def test_a_service_outside_is_named() -> None:
    shown = TrialResult(ending=Ending.PASSED, connected=("db.example:5432",))

    found = play(lambda trial: certain(trial.is_offline), shown=shown).explanation

    assert (found.kind, found.culprit) == (FlakyKind.NETWORK, "db.example:5432")


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_stable_test_is_never_called_flaky_in_five_thousand_executions(is_broken: bool) -> None:
    executions = 0
    while executions < 5_000:
        played = play(lambda _trial: certain(is_broken), before=names(30))
        executions += len(played.trials)
        assert played.explanation.kind is None
        assert played.explanation.plain_failures in {0, played.explanation.plain_runs}


@pytest.mark.gate(2)
@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5, 0.8, 0.98])
def test_a_test_that_fails_by_chance_is_seldom_given_a_kind(rate: float) -> None:
    dice = random.Random(f"chance {rate}")
    plans = 400
    wrong = 0
    for _ in range(plans):
        played = play(lambda _trial: rate, before=names(8), dice=dice, shown=bound(5000))
        wrong += played.explanation.kind is not None

    # Three standard deviations above the promised rate.
    promised = WRONG_KIND_AT_MOST * plans
    assert wrong <= promised + 3 * math.sqrt(promised)


def test_an_ending_that_alternates_from_run_to_run_is_no_kind() -> None:
    count = 0

    def chance(_trial: FlakyTrial) -> float:
        nonlocal count
        count += 1
        return certain(count % 2 == 0)

    assert play(chance, before=names(8)).explanation.kind is None


def test_without_a_cause_plain_runs_follow_and_leave_the_seeds_to_chance() -> None:
    played = play(lambda _trial: 0.0)

    found, last = played.explanation, played.trials[-1]
    assert (found.plain_runs, found.plain_failures) == (PLAIN_RUNS, 0)
    assert (last.hash_seed, last.seed) == (None, None)


def test_at_the_end_of_the_time_the_plain_runs_so_far_count() -> None:
    plan = explain(Suspect(test=TARGET))
    next(plan)
    plan.throw(BudgetSpent())
    for _ in range(3):
        plan.send(TrialResult(ending=Ending.PASSED))

    with pytest.raises(StopIteration) as stop:
        plan.throw(BudgetSpent())

    assert stop.value.value.plain_runs == 3
    assert not stop.value.value.is_searched


def test_a_test_that_is_gone_is_not_explained() -> None:
    plan = explain(Suspect(test=TARGET))
    next(plan)

    with pytest.raises(StopIteration) as stop:
        plan.send(TrialResult(ending=Ending.OTHER, absent=(TARGET,)))

    assert stop.value.value.reason == "it was not collected"


def test_the_command_leaves_out_seeds_that_do_not_matter() -> None:
    before = names(3)

    found = play(lambda trial: certain(before[1] in trial.before), before=before).explanation

    assert found.cause == FlakyTrial(target=TARGET, before=(before[1],))
    assert found.control == FlakyTrial(target=TARGET)


def test_the_command_keeps_seeds_that_do_matter() -> None:
    def chance(trial: FlakyTrial) -> float:
        return certain(bool(trial.zone) and trial.hash_seed == 0)

    found = play(chance).explanation

    assert found.kind is FlakyKind.TIME_ZONE
    assert found.cause is not None
    assert found.cause.hash_seed == 0


def test_a_new_second_is_not_taken_for_midnight() -> None:
    found = play(lambda trial: certain(trial.boundary is not None)).explanation

    assert (found.kind, found.culprit) == (FlakyKind.CLOCK, "a new second")


def test_a_test_that_always_failed_is_explained_by_order_alone() -> None:
    plan = explain(Suspect(test=TARGET, before=names(2), always_failed=True))
    next(plan)
    plan.send(TrialResult(ending=Ending.FAILED))

    with pytest.raises(StopIteration) as stop:
        plan.send(TrialResult(ending=Ending.FAILED))

    assert stop.value.value.reason == "it failed in each attempt"


CONTROL = FlakyTrial(target="t", hash_seed=0, seed=0)


def tried(result: TrialResult) -> set[FlakyKind]:
    return {each.kind for each in conditions(CONTROL, result)}


def test_a_port_and_the_network_are_refused_only_to_a_test_that_uses_them() -> None:
    uses = {FlakyKind.PORT, FlakyKind.NETWORK}

    assert not tried(TrialResult(ending=Ending.PASSED)) & uses
    # The port belongs to another test.
    assert not tried(bound(5000)) & uses
    assert FlakyKind.NETWORK in tried(TrialResult(ending=Ending.PASSED, connected=("a:1",)))


def test_a_long_test_is_not_slowed_down_until_the_time_is_over() -> None:
    short = TrialResult(ending=Ending.PASSED, duration_s=0.01)
    long = TrialResult(ending=Ending.PASSED, duration_s=60)

    assert FlakyKind.LOAD in tried(short)
    assert FlakyKind.LOAD not in tried(long)


def test_each_condition_differs_from_the_control_in_one_respect() -> None:
    for condition in conditions(CONTROL, TrialResult(ending=Ending.PASSED, duration_s=0.01)):
        changed = [
            name
            for name in FlakyTrial.__struct_fields__
            if getattr(condition.trial, name) != getattr(CONTROL, name)
        ]
        # When the test begins is a part of the boundary.
        assert len(set(changed) - {"lead_s"}) == 1
