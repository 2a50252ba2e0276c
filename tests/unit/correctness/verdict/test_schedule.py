# SPDX-License-Identifier: Apache-2.0
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.blocks import block_numbers, blocks, next_in_order
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.schedule import baseline_starts, next_arm, sequence
from ci_doctor.model.verdict import Verdict
from tests.unit.correctness.verdict.test_decide import REQUESTS, any_start, start, starts

A, B = Arm.BASELINE, Arm.CANDIDATE
# The first pair of this seed is A, B.
SEED = next(seed for seed in range(99) if sequence(Rules(seed=seed))[0] is A)
RULES = Rules(seed=SEED)


def letters(arms: tuple[Arm, ...]) -> str:
    return "".join(arm.letter for arm in arms)


def made_by(answer: dict[Arm, str], rules: Rules = RULES, archived: str = "") -> list[ArmStart]:
    """The starts that are made if each arm always answers the same, archived ones left out."""
    before = [replace(each, archived=True, build=each.name) for each in starts(archived)]
    made = [*before]
    while arm := next_arm(made, ["r0"], rules):
        word = answer[arm]
        made.append(start(arm, word.rstrip("!"), len(made), failed="!" in word))
        assert len(made) < len(before) + 60
    return made[len(before) :]


def count(made: list[ArmStart]) -> tuple[int, int]:
    times = Counter(start.arm for start in made)
    return times[A], times[B]


# --- the blocks ---


@pytest.mark.parametrize(
    ("rules", "archived", "expected"),
    [
        (Rules(), False, [(1, 1), (3, 5), (4, 2)]),
        (Rules(max_starts=20), False, [(1, 1), (3, 5), (4, 2), (2, 2)]),
        (Rules(max_starts=6), False, [(1, 1), (2, 2)]),
        (Rules(max_starts=2), False, [(1, 1)]),
        (Rules(least_baselines=3), False, [(3, 1), (3, 3), (2, 4)]),
        (Rules(least_candidates=4), False, [(1, 4), (3, 2), (4, 2)]),
        (Rules(), True, [(0, 1), (4, 5), (4, 2)]),
    ],
)
def test_the_blocks_of_an_experiment(
    rules: Rules, archived: bool, expected: list[tuple[int, int]]
) -> None:
    plan = blocks(rules, archived=archived)
    assert [(each.baseline, each.candidate) for each in plan] == expected


@given(st.integers(2, 60), st.integers(1, 5), st.integers(1, 5), st.booleans(), st.integers())
def test_an_order_fills_each_block_before_the_next(
    most: int, least_baselines: int, least_candidates: int, archived: bool, seed: int
) -> None:
    rules = Rules(
        max_starts=max(most, least_baselines + least_candidates),
        least_baselines=least_baselines,
        least_candidates=least_candidates,
        seed=seed,
    )
    arms = sequence(rules, archived=archived)
    assert len(arms) <= rules.max_starts
    numbers = block_numbers(blocks(rules, archived=archived), arms)
    assert list(numbers) == sorted(numbers)


def test_each_order_within_a_block_is_as_likely_as_any_other() -> None:
    orders = Counter(letters(sequence(Rules(max_starts=6, seed=seed))) for seed in range(3000))
    # Two orders of the first block, six of the second.
    assert len(orders) == 12
    assert min(orders.values()) > 180
    assert max(orders.values()) < 320


def test_an_arm_that_alone_is_needed_is_pulled_forward_up_to_the_end_of_the_next_block() -> None:
    plan = blocks(Rules(max_starts=24), archived=False)
    assert all(next_in_order(plan, {A: 1, B: 1}, seed, {B}) is B for seed in range(20))
    assert all(next_in_order(plan, {A: 1, B: 7}, seed, {B}) is B for seed in range(20))
    assert next_in_order(plan, {A: 1, B: 8}, 0, {B}) is A, "both blocks have no further start of it"


# --- when enough is known ---


@pytest.mark.parametrize(
    ("retries", "baseline"), [(1, 39), (2, 8), (3, 5), (4, 5), (5, 5), (10, 10)]
)
def test_baseline_starts_leave_room_for_one_more_labeling_that_is_as_extreme(
    retries: int, baseline: int
) -> None:
    assert baseline_starts(retries, 0.05) == baseline


@pytest.mark.parametrize("seed", range(8))
def test_a_difference_in_every_start_is_decided_at_the_first_look(seed: int) -> None:
    made = made_by({A: "x", B: "z"}, Rules(seed=seed))
    assert count(made) == (4, 6)
    decision = decide(made, ["r0"], Rules(seed=seed), complete=True)
    assert decision.verdict is Verdict.REGRESSION
    assert decision.test is not None
    assert (decision.test.p, decision.test.labelings) == (1 / 112, 112)


def test_equal_answers_end_it_after_a_start_of_each_arm() -> None:
    assert count(made_by({A: "x", B: "x"})) == (1, 1)
    assert count(made_by({A: "x", B: "x"}, archived="6*x")) == (0, 1)
    assert count(made_by({A: "x", B: "x"}, replace(RULES, least_candidates=4))) == (1, 4)
    assert count(made_by({A: "x", B: "x"}, replace(RULES, least_baselines=3))) == (3, 1)


def test_too_few_archived_builds_stand_in_for_no_baseline_start() -> None:
    rules = replace(RULES, archive_builds=6)
    assert count(made_by({A: "x", B: "x"}, rules, archived="5*x")) == (1, 1)
    assert count(made_by({A: "x", B: "x"}, rules, archived="6*x")) == (0, 1)
    # A fault that the only archived build shows too.
    rules = replace(RULES, archive_builds=2)
    assert count(made_by({A: "x", B: "z"}, rules, archived="z")) == (4, 6)


def test_an_archive_never_makes_a_regression_by_itself() -> None:
    # Nobody drew the labels of its starts.
    assert count(made_by({A: "x", B: "z"}, archived="6*x")) == (4, 6)


@pytest.mark.parametrize("seed", range(8))
def test_beside_an_archive_the_order_is_the_drawn_one_whatever_is_answered(seed: int) -> None:
    rules = replace(RULES, seed=seed, least_candidates=2)
    given = [replace(each, archived=True, build=each.name) for each in starts("6*x")]
    # The candidate has given the archive's answer and one of its own: if the baseline gave that one
    # too, the run would end green.
    answers = {A: iter("xxxx"), B: iter("xzxzxzxz")}
    order = sequence(rules, archived=True)
    for number, expected in enumerate(order[:7]):
        arm = next_arm(given, ["r0"], rules)
        assert arm is expected
        given.append(start(arm, next(answers[arm]), number))


def test_a_candidate_that_never_works_is_blamed_after_eight_starts() -> None:
    assert count(made_by({A: "x", B: "-!"})) == (5, 3)


@pytest.mark.parametrize(("retries", "archived"), [(1, ""), (2, ""), (3, ""), (1, "40*x")])
def test_a_candidate_that_never_works_is_started_again_rather_than_the_baseline_39_times(
    retries: int, archived: str
) -> None:
    made = made_by({A: "x", B: "-!"}, replace(RULES, retries=retries), archived)
    assert count(made) == ((0, 1) if archived else (5, 3))


def test_the_policy_any_tries_pairs_until_one_agrees() -> None:
    rules = replace(RULES, policy=Policy.ANY)
    assert count(made_by({A: "x", B: "z"}, rules)) == (3, 3)
    assert count(made_by({A: "x", B: "x"}, rules)) == (1, 1)


@given(st.integers(1, 5), st.integers(2, 20), st.data())
def test_the_schedule_ends_within_its_bounds(retries: int, most: int, data: st.DataObject) -> None:
    rules = replace(RULES, retries=retries, max_starts=most)
    made = starts()
    while arm := next_arm(made, REQUESTS, rules):
        made.append(data.draw(any_start(arm)))
        # A baseline that fails first is started once more, whatever the limit.
        assert len(made) <= max(most, 3)
    again = decide(made, REQUESTS, rules, complete=True)
    early = decide(made, REQUESTS, rules, complete=False)
    undecided = {Verdict.INCONCLUSIVE, Verdict.INFRA}
    assert again.verdict is early.verdict or early.verdict in undecided


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ("", "", A),
        ("x", "", B),
        ("x", "x", None),
        ("x y", "y", B),
        ("x", "y x", A),
        ("x y", "y x", None),
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
