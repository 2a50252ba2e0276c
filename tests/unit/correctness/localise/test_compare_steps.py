# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.localise.compare_steps import compare_steps, varies_within
from ci_doctor.correctness.localise.conditions import ReducedStanding
from ci_doctor.correctness.localise.steps import next_steps
from tests.unit.correctness.localise.subjects import of_experiment, subject

STEPS = next_steps(subject(), of_experiment(subject(), first_pass=True))[:2]


def test_each_step_is_compared_with_the_same_step_of_the_baseline() -> None:
    first, second = compare_steps(
        STEPS, [{"r0": "x"}, {"r0": "y"}], [{"r0": "x"}, {"r0": "x"}], ["r0"]
    )
    assert (first.standing, second.standing) == (ReducedStanding.EQUAL, ReducedStanding.DIFFERS)
    assert second.differing == ("r0",)


def test_an_error_of_the_candidate_alone_is_a_difference_and_one_of_the_baseline_tells_nothing() -> (
    None
):
    first, second = compare_steps(
        STEPS, [{"r0": "x"}, {"r0": None}], [{"r0": None}, {"r0": "x"}], ["r0"]
    )
    assert (first.standing, second.standing) == (ReducedStanding.DIFFERS, ReducedStanding.NOT_TRIED)
    assert second.why == "the baseline does not answer"


def test_steps_that_a_start_did_not_end_and_other_requests_are_not_compared() -> None:
    (only,) = compare_steps(STEPS, [{"r0": "x", "r1": "u"}], [{"r0": "x", "r1": "v"}], ["r0"])
    assert (only.standing, only.compared) == (ReducedStanding.EQUAL, 1)


def test_a_baseline_that_answers_its_second_pass_otherwise_is_noticed() -> None:
    assert varies_within(STEPS, [{"r0": "x"}, {"r0": "y"}], "r0")
    assert not varies_within(STEPS, [{"r0": "x"}, {"r0": "x"}], "r0")
    assert not varies_within(STEPS, [{"r0": "x"}], "r0")
