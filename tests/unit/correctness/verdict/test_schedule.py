# SPDX-License-Identifier: Apache-2.0
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import FEWEST
from ci_doctor.correctness.verdict.schedule import baseline_starts, next_arm, order
from ci_doctor.model.verdict import Verdict
from tests.unit.correctness.verdict.test_decide import REQUESTS, any_start, start, starts

A, B = Arm.BASELINE, Arm.CANDIDATE
RULES = Rules()


def letters(arms: tuple[Arm, ...]) -> str:
    return "".join(arm.letter for arm in arms)


def made_by(answer: dict[Arm, str], rules: Rules = RULES, archived: str = "") -> str:
    """The order in which starts are made where each arm always answers the same."""
    made = [replace(each, archived=True) for each in starts(archived)]
    told = ""
    while arm := next_arm(made, ["r0"], rules):
        word = answer[arm]
        made.append(start(arm, word.rstrip("!"), len(made), failed="!" in word))
        told += arm.letter
    return told


@pytest.mark.parametrize(
    ("retries", "baseline"), [(1, 39), (2, 8), (3, 5), (4, 5), (5, 5), (10, 10)]
)
def test_baseline_starts_leave_room_for_one_more_labeling_that_is_as_extreme(
    retries: int, baseline: int
) -> None:
    assert baseline_starts(retries, 0.05) == baseline


def test_the_arms_take_turns() -> None:
    assert letters(order(3, 0.05)) == "ABAABABA"
    assert letters(order(4, 0.05)) == "ABBABAABA", "not every second one"
    assert letters(order(2, 0.05)) == "ABAAAAABAA"
    assert letters(order(4, 0.05, eager=True)) == "ABBABBAAA"
    assert letters(order(3, 0.05, archived=6, eager=True)) == "BBABA"
    assert letters(order(3, 0.05, archived=6)) == "BABAB"
    assert letters(order(3, 0.05, archived=1)) == "BAABABA"


@given(st.integers(1, 12), st.sampled_from([0.01, 0.05, 0.1, 0.3]), st.integers(0, 30))
def test_every_schedule_holds_what_a_regression_takes(
    retries: int, alpha: float, archived: int
) -> None:
    arms = order(retries, alpha, archived)
    baseline = arms.count(A) + archived
    assert arms.count(B) == retries
    assert 2 / math.comb(baseline + retries, retries) <= alpha or archived
    assert arms[0 if archived else 1] is B


def test_a_difference_is_decided_at_the_end() -> None:
    assert made_by({A: "x", B: "z"}) == "ABAABABA"
    assert made_by({A: "x", B: "z"}, archived="6*x") == "BABAB"


def test_equal_answers_end_it_after_a_start_of_each_arm() -> None:
    assert made_by({A: "x", B: "x"}) == "AB"
    assert made_by({A: "x", B: "x"}, archived="6*x") == "B"
    assert made_by({A: "x", B: "x"}, replace(RULES, retries=4, least_candidates=4)) == "ABBABB"


def test_a_candidate_that_never_works_needs_no_further_baseline_start() -> None:
    assert made_by({A: "x", B: "-!"}) == "ABAABB"


def test_archived_starts_that_this_machine_contradicts_count_no_more() -> None:
    assert made_by({A: "y", B: "y"}, archived="6*x") == "BA"
    assert made_by({A: "y", B: "z"}, archived="6*x") == "BABAAABA"


def test_the_policy_any_tries_pairs_until_one_agrees() -> None:
    rules = replace(RULES, policy=Policy.ANY)
    assert made_by({A: "x", B: "z"}, rules) == "ABABAB"
    assert made_by({A: "x", B: "x"}, rules) == "AB"


@given(st.integers(1, 5), st.data())
def test_the_schedule_ends_within_its_bounds(retries: int, data: st.DataObject) -> None:
    rules = replace(RULES, retries=retries)
    made = starts()
    while arm := next_arm(made, REQUESTS, rules):
        made.append(data.draw(any_start(arm)))
        assert len(made) <= retries + baseline_starts(retries, rules.alpha)
    # A candidate that never works is started as often as a test needs, whatever `retries` says.
    assert sum(start.arm is B for start in made) <= max(retries, FEWEST)
    again = decide(made, REQUESTS, rules, complete=True)
    early = decide(made, REQUESTS, rules, complete=False)
    assert again.verdict is early.verdict or early.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ("", "", A),
        ("x", "", B),
        ("x", "x", None),
        ("x", "z", A),
        ("x z", "z", None),
        ("-", "", A),
        ("- -", "", None),
        ("-! -!", "", None),
        ("x^", "", A),
        ("x0", "x", None),
    ],
)
def test_the_next_start_is_the_one_that_can_still_tell_something(
    baseline: str, candidate: str, expected: Arm | None
) -> None:
    assert next_arm(starts(baseline, candidate), ["r0"], RULES) is expected


@pytest.mark.parametrize(
    ("retries", "archived", "expected"),
    [(1, "", "ABAABB"), (2, "", "ABABAB"), (3, "", "ABAABB"), (1, "20*x", "B")],
)
def test_a_candidate_that_never_works_is_started_again_rather_than_the_baseline_nineteen_times(
    retries: int, archived: str, expected: str
) -> None:
    told = made_by({A: "x", B: "-!"}, Rules(retries=retries), archived)
    assert (len(told), told.count(A)) == (len(expected), expected.count(A)), told


def test_a_candidate_that_works_after_all_costs_no_further_start() -> None:
    made = starts("2*x", "-! x")
    assert next_arm(made, ["r0"], Rules(retries=1)) is None
    assert decide(made, ["r0"], Rules(retries=1), complete=True).verdict is Verdict.INCONCLUSIVE
