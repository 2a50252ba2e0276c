# SPDX-License-Identifier: Apache-2.0
import random
from collections import Counter

import pytest

from ci_doctor.correctness.count_chances import mix_p, own_p
from ci_doctor.correctness.expectation import expectation
from ci_doctor.correctness.power import fault_power
from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.blocks import StartBlock, block_numbers, blocks
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.labelings import Labels
from ci_doctor.correctness.verdict.mix_test import mix_test
from ci_doctor.correctness.verdict.mix_test import own_p as own_p_of_starts
from ci_doctor.correctness.verdict.patterns import patterns
from ci_doctor.correctness.verdict.schedule import next_arm
from ci_doctor.correctness.verdict.traits import traits
from ci_doctor.model.verdict import Verdict

REQUESTS = ("r", "s")
RULES = Rules(seed=7)


def start(arm: Arm, number: int, *, is_faulty: bool) -> ArmStart:
    answer = "wrong" if is_faulty else "right"
    return ArmStart(arm=arm, number=number, answers={"r": answer, "s": "right"})


def whole_run(rules: Rules, share: float, chance: random.Random) -> tuple[Verdict, int]:
    """The end of a run by the rules of the verdict, and its starts."""
    starts: list[ArmStart] = []
    made: Counter[Arm] = Counter()
    while arm := next_arm(starts, REQUESTS, rules):
        made[arm] += 1
        is_faulty = arm is Arm.CANDIDATE and chance.random() < share
        starts.append(start(arm, made[arm], is_faulty=is_faulty))
    return decide(starts, REQUESTS, rules, complete=True).verdict, len(starts)


@pytest.mark.parametrize(("share", "verdict"), [(0.0, Verdict.PASS), (1.0, Verdict.REGRESSION)])
@pytest.mark.parametrize(
    "rules",
    [RULES, Rules(max_starts=10), Rules(least_baselines=3), Rules(least_candidates=4)],
    ids=["default", "ten", "three-baselines", "four-candidates"],
)
def test_without_chance_a_run_takes_as_many_starts_as_computed(
    rules: Rules, share: float, verdict: Verdict
) -> None:
    power = fault_power(rules, share)
    ended, starts = whole_run(rules, share, random.Random(0))
    assert (ended, starts) == (verdict, round(power.mean_starts))
    assert (power.red, power.green) == pytest.approx((share, 1 - share))


def test_simulated_runs_end_as_often_as_computed() -> None:
    runs = 60
    rules = Rules(seed=3, max_starts=10)
    chance = random.Random(5)
    ends: Counter[Verdict] = Counter()
    for _ in range(runs):
        verdict, _ = whole_run(rules, 0.85, chance)
        ends[verdict] += 1
    power = fault_power(rules, 0.85)
    # Three standard errors of a share near a half.
    error = 3 * (0.25 / runs) ** 0.5
    assert ends[Verdict.REGRESSION] / runs == pytest.approx(power.red, abs=error)
    green = ends[Verdict.PASS] + ends[Verdict.FLAKY]
    assert green / runs == pytest.approx(power.green, abs=error)


@pytest.mark.parametrize("faulty", [(1, 0), (1, 1), (1, 2), (0, 3), (1, 4)])
def test_counts_give_the_p_values_of_the_real_test(faulty: tuple[int, int]) -> None:
    made = (StartBlock(baseline=1, candidate=1), StartBlock(baseline=4, candidate=4))
    starts = []
    for block, count in zip(made, faulty, strict=True):
        starts += [start(Arm.BASELINE, 1, is_faulty=False)] * block.baseline
        starts += [start(Arm.CANDIDATE, 1, is_faulty=True)] * count
        starts += [start(Arm.CANDIDATE, 1, is_faulty=False)] * (block.candidate - count)
    labels = Labels(
        candidate=tuple(each.arm is Arm.CANDIDATE for each in starts),
        block=block_numbers(made, [each.arm for each in starts]),
    )
    given = traits(patterns(starts, REQUESTS), [False] * len(starts))
    p, spendable = mix_p(made, faulty)
    real = mix_test(given, labels)
    assert p == pytest.approx(real.p)
    assert set(map(round_p, spendable)) == set(map(round_p, real.spendable))
    assert own_p(made, faulty) == pytest.approx(own_p_of_starts(given, labels))


def round_p(p: float) -> float:
    return round(p, 9)


def test_an_archive_spares_the_baselines_start() -> None:
    assert fault_power(RULES, 0.0, archived=True).mean_starts == 1
    assert fault_power(RULES, 1.0, archived=True).red == 1


def test_a_large_limit_is_followed_to_a_look_near_twenty_starts() -> None:
    rules = Rules(max_starts=1000)
    ends = [
        sum(block.size for block in blocks(rules, archived=False)[:count]) for count in range(6)
    ]
    assert fault_power(rules, 0.5).starts in ends


def test_the_sentence_names_starts_and_shares() -> None:
    power = fault_power(RULES, 0.5)
    assert expectation(RULES) == (
        "expected: 2 starts if all answers are equal; a fault on one request in every start: "
        f"red at 10 starts; in half of all starts: red in {power.red:.0%}, green in "
        f"{round(power.green, 2):.0%} of runs within {power.starts} starts (mean {power.mean_starts:.1f} starts)"
    ).replace("%", " %")


def test_a_limit_within_which_nothing_is_red_is_named() -> None:
    rules = Rules(max_starts=10, alpha=0.0001)
    assert "in every start: undecided at 10 starts" in expectation(rules)
