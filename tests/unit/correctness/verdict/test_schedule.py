# SPDX-License-Identifier: Apache-2.0
import math
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_doctor.correctness.settings import Arm, Policy, Rules
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.looks import block_numbers, blocks, look, neighbours, widened
from ci_doctor.correctness.verdict.schedule import drawn_places, next_arm, next_arms, sequence
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.model.outcome import Verdict
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
        (Rules(), False, [(1, 1), (3, 4), (2, 1), (2, 2)]),
        (Rules(max_starts=20), False, [(1, 1), (3, 4), (2, 1), (2, 2), (2, 2)]),
        (Rules(max_starts=10), False, [(1, 1), (3, 5)]),
        (Rules(least_baselines=3), False, [(3, 1), (3, 3), (3, 3)]),
        (Rules(least_candidates=4), False, [(1, 4), (3, 3), (3, 2)]),
        (Rules(least_candidates=8), False, [(1, 8), (2, 2), (2, 1)]),
        (Rules(), True, [(0, 1), (4, 4), (2, 1), (2, 2)]),
        (
            Rules(max_starts=32, earlier_max_starts=(16,)),
            False,
            [(1, 1), (3, 4), (2, 1), (2, 2), (4, 4), (4, 4)],
        ),
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
    orders = Counter(letters(sequence(Rules(max_starts=9, seed=seed))) for seed in range(7000))
    # Two orders of the first block, 35 of the second.
    assert len(orders) == 70
    assert min(orders.values()) > 60
    assert max(orders.values()) < 145


@given(
    st.integers(2, 40),
    st.integers(1, 9),
    st.integers(1, 16),
    st.sampled_from([0.001, 0.01, 0.025, 0.05, 0.2]),
    st.booleans(),
)
@example(2, 1, 4, 0.2, False)
@example(2, 4, 1, 0.2, False)
def test_a_widened_design_declares_an_answer_that_separates_the_arms_at_some_look(
    most: int, least_baselines: int, least_candidates: int, alpha: float, archived: bool
) -> None:
    rules = widened(
        Rules(
            max_starts=most,
            least_baselines=least_baselines,
            least_candidates=least_candidates,
            alpha=alpha,
            archive_builds=6,
        ),
        archived=archived,
    )
    before = [replace(each, archived=True, build=each.name) for each in starts("6*x")]
    order = sequence(rules, archived=archived)
    made = before if archived else []
    for number, arm in enumerate(order):
        made = [*made, start(arm, "x" if arm is A else "z", number)]
    verdict = decide(made, ["r0"], rules, complete=True).verdict
    assert verdict is Verdict.REGRESSION
    assert len(order) <= rules.max_starts


def test_eight_candidate_starts_before_a_pass_are_no_obstacle_to_a_regression() -> None:
    made = made_by({A: "x", B: "z"}, replace(RULES, least_candidates=8))
    assert count(made) == (3, 10)


@pytest.mark.parametrize(
    ("order", "groups"),
    [
        # Nothing is learned from starts that lie apart in time.
        ("AAAABBBB", 6),
        ("AB", 2),
        ("ABBABAAB", 36),
        ("ABABABABAB", 100),
        ("AAAA", 1),
    ],
)
def test_neighbours_of_both_arms_are_blocks(order: str, groups: int) -> None:
    candidate = [letter == "B" for letter in order]
    found = neighbours(candidate)
    ways = 1
    for group in set(found):
        of_group = [each for each, number in zip(candidate, found, strict=True) if number == group]
        ways *= math.comb(len(of_group), sum(of_group))
    assert ways == groups


# --- when enough is known ---


@pytest.mark.parametrize("seed", range(8))
def test_a_difference_in_every_start_is_decided_at_the_first_look(seed: int) -> None:
    made = made_by({A: "x", B: "z"}, Rules(seed=seed))
    assert count(made) == (4, 5)
    decision = decide(made, ["r0"], Rules(seed=seed), complete=True)
    assert decision.verdict is Verdict.REGRESSION
    assert decision.test is not None
    assert (decision.test.p, decision.test.labelings) == (1 / 70, 70)


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
    assert count(made_by({A: "x", B: "z"}, rules, archived="z")) == (4, 5)


def test_an_archive_never_makes_a_regression_by_itself() -> None:
    # Nobody drew the labels of its starts.
    assert count(made_by({A: "x", B: "z"}, archived="6*x")) == (4, 5)


@given(st.integers(0, 99), st.sampled_from(["", "6*x"]), st.data())
def test_whatever_is_answered_the_next_start_is_the_next_one_of_the_drawn_order(
    seed: int, archived: str, data: st.DataObject
) -> None:
    rules = replace(RULES, seed=seed)
    made = [replace(each, archived=True, build=each.name) for each in starts(archived)]
    for expected in sequence(rules, archived=bool(archived)):
        arm = next_arm(made, REQUESTS, rules)
        if arm is None:
            return
        assert arm is expected
        made.append(data.draw(any_start(arm)))
    assert next_arm(made, REQUESTS, rules) is None


def test_a_candidate_that_never_works_is_blamed_at_the_first_look() -> None:
    assert count(made_by({A: "x", B: "-!"})) == (4, 5)
    assert count(made_by({A: "x", B: "-!"}, archived="40*x")) == (4, 5)


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
        assert len(made) <= max(most, 2)
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
        ("-", "", B),
        ("- -", "", None),
        ("-! -!", "", None),
        ("x^", "", B),
        ("x0", "x", None),
    ],
)
def test_the_next_start_is_the_one_that_can_still_tell_something(
    baseline: str, candidate: str, expected: Arm | None
) -> None:
    assert next_arm(starts(baseline, candidate), ["r0"], RULES) is expected


def test_a_run_ends_amber_as_soon_as_no_later_start_can_decide_it() -> None:
    """The candidate is wrong once; every baseline start was made, and no look can be red."""
    for seed in range(12):
        rules = replace(RULES, seed=seed)
        order = sequence(rules)
        last = max(index for index, arm in enumerate(order) if arm is A)
        made: list[ArmStart] = []
        while arm := next_arm(made, ["r0"], rules):
            is_wrong = arm is B and count(made)[1] == 0
            made.append(start(arm, "z" if is_wrong else "x", len(made)))
        assert len(made) == last + 1
        assert decide(made, ["r0"], rules, complete=True).verdict is Verdict.INCONCLUSIVE


@given(st.integers(0, 99), st.data())
def test_no_run_that_ends_early_undecided_could_have_been_decided(
    seed: int, data: st.DataObject
) -> None:
    rules = replace(RULES, seed=seed)
    order = sequence(rules)
    answers = st.sampled_from(["x", "x", "x", "z", "y"])
    made: list[ArmStart] = []
    while arm := next_arm(made, ["r0"], rules):
        made.append(start(arm, data.draw(answers), len(made)))
    early = decide(made, ["r0"], rules, complete=False)
    if not early.is_final or early.mended or len(made) == len(order):
        return
    for arm in order[len(made) :]:
        made.append(start(arm, data.draw(answers), len(made)))
        decision = decide(made, ["r0"], rules, complete=len(made) == len(order))
        assert decision.verdict is Verdict.INCONCLUSIVE


# --- starts at once ---


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("seed", range(12))
def test_starts_at_once_are_the_next_ones_of_the_drawn_order_and_of_one_block(
    policy: Policy, seed: int
) -> None:
    rules = Rules(policy=policy, seed=seed, retries=8, least_candidates=2)
    # No answer is twice the same, so that nothing ends it before the last start.
    made: list[ArmStart] = []
    sizes: list[int] = []
    while arms := next_arms(made, ["r0"], rules, 2):
        for arm in arms:
            made.append(start(arm, f"{len(made)}", len(made)))
        sizes.append(len(arms))
        assert len(made) <= 16
    assert tuple(each.arm for each in made) == sequence(rules)[: len(made)]
    if policy is Policy.CONTROL:
        numbers = block_numbers(blocks(rules, archived=False), [each.arm for each in made])
        begin = 0
        for size in sizes:
            assert len(set(numbers[begin : begin + size])) == 1
            begin += size


def test_a_run_that_goes_on_within_a_pair_draws_the_same_places() -> None:
    rules = Rules(seed=SEED)
    both = drawn_places([], rules, 4, 2)
    assert len(set(both)) == 2
    arms = next_arms([], ["r0"], rules, 2)
    assert next_arms([start(arms[0], "a", 1)], ["r0"], rules, 2) == arms[1:]
    assert drawn_places([start(arms[0], "a", 1)], rules, 4, 2) == both[1:]


def test_a_place_is_drawn_whatever_the_arm_is() -> None:
    counts: Counter[tuple[Arm, int]] = Counter()
    for seed in range(2000):
        rules = Rules(seed=seed)
        counts.update(
            zip(next_arms([], ["r0"], rules, 2), drawn_places([], rules, 2, 2), strict=True)
        )
    # 1,000 of each, and five standard deviations of 22.4.
    assert all(abs(counts[arm, place] - 1000) < 112 for arm in Arm for place in range(2))


@pytest.mark.parametrize(
    ("devices", "works", "verdict"),
    [
        # Both baseline starts on the device on which nothing works: the candidate says so.
        ("1100", "  cc", Verdict.INCONCLUSIVE),
        ("1001", " b c", Verdict.INCONCLUSIVE),
        # Nothing works anywhere, or no device was drawn.
        ("1100", "    ", Verdict.FAILED),
        ("    ", "  cc", Verdict.FAILED),
    ],
)
def test_an_arm_that_only_ran_where_nothing_works_proves_nothing(
    devices: str, works: str, verdict: Verdict
) -> None:
    arms = (A, A, B, B)
    made = [
        replace(
            start(arm, word.strip() or "-", number, failed=word == " "),
            devices=device.strip(),
            **({"answers": {"r0": None}} if word == " " else {}),
        )
        for number, (arm, device, word) in enumerate(zip(arms, devices, works, strict=True), 1)
    ]
    assert decide(made, ["r0"], Rules(), complete=True).verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert next_arms(made, ["r0"], Rules(), 2)


def test_a_look_is_never_judged_again_by_a_higher_level() -> None:
    ended = Rules(seed=3)
    longer = replace(ended, max_starts=32, earlier_max_starts=(16,))
    longest = replace(ended, max_starts=64, earlier_max_starts=(16, 32))
    made: list[ArmStart] = []
    for index, arm in enumerate(sequence(longest, archived=False)):
        # Both arms have both answers, so each look is made and none decides.
        made.append(start(arm, "xy"[index // 2 % 2], len(made)))
    levels: dict[int, float] = {}
    for rules in (ended, longer, longest):
        result = look(made[: rules.max_starts], ["r0"], rules, complete=True)
        assert result.test is not None
        looks = result.test.looks
        assert [each.limit for each in looks[: len(levels)]] == list(levels.values())
        levels = {each.starts: each.limit for each in looks}
    # What each plan may spend is at most alpha, and so is each of its levels.
    assert {9, 12, 16} < set(levels)
    assert max(levels.values()) <= ended.alpha
