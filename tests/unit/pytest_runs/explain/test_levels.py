"""Which conditions are tried."""

from ci_doctor.pytest_runs.explanation import FlakyKind
from ci_doctor.pytest_runs.trial import Ending, FlakyTrial, TrialResult
from ci_doctor.pytest_runs.trial_plan import conditions
from tests.unit.pytest_runs.explain.world import bound

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
