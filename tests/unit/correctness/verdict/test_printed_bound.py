# SPDX-License-Identifier: Apache-2.0
"""Whether the bound that a green verdict prints is true, over simulated servers with noise. The whole: benchmarks/printed_risk.py."""

import re
from random import Random

import pytest

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.schedule import next_arm
from ci_doctor.model.verdict import Verdict

DEFAULT = Rules()
NIGHTLY = Rules(retries=4, least_candidates=4)
EXPERIMENTS = 400
# 5 % are promised: of 400 experiments 20, and 5 standard deviations more.
MOST_FALSE = 42


def simulated(rng: Random, noise: float, shows: float, prompts: int, rules: Rules) -> Decision:
    """Both arms get each answer wrong with probability `noise`; the candidate's fault is in the first one."""
    requests = [f"r{number}" for number in range(prompts)]
    starts: list[ArmStart] = []
    while arm := next_arm(starts, requests, rules):
        answers = {each: f"{rng.random()}" if rng.random() < noise else each for each in requests}
        if arm is Arm.CANDIDATE and rng.random() < shows:
            answers["r0"] = "wrong"
        number = 1 + sum(start.arm is arm for start in starts)
        starts.append(ArmStart(arm=arm, number=number, answers=answers))
    return decide(starts, requests, rules, complete=True)


def printed(decision: Decision) -> float | None:
    """The bound in percent, as a person reads it."""
    match = re.search(r"less than (\d+)% of starts can hide", decision.risk or "")
    return float(match[1]) if match else None


@pytest.mark.parametrize(
    ("noise", "shows", "prompts", "rules"),
    [
        (0.02, 0.85, 40, DEFAULT),
        (0.10, 0.78, 10, DEFAULT),
        (0.10, 0.90, 40, DEFAULT),
        (0.02, 0.53, 40, NIGHTLY),
        (0.005, 0.64, 10, NIGHTLY),
    ],
)
def test_a_printed_bound_is_false_in_one_experiment_of_twenty_at_most(
    noise: float, shows: float, prompts: int, rules: Rules
) -> None:
    rng = Random(f"{noise} {shows} {prompts}")
    false = 0
    for _ in range(EXPERIMENTS):
        decision = simulated(rng, noise, shows, prompts, rules)
        bound = printed(decision)
        is_green = decision.verdict in {Verdict.PASS, Verdict.FLAKY}
        assert is_green or bound is None
        false += bound is not None and bound <= 100 * shows
    assert false <= MOST_FALSE


def test_without_noise_every_green_verdict_prints_a_bound() -> None:
    rng = Random(1)
    for _ in range(50):
        decision = simulated(rng, 0.0, 0.5, 10, DEFAULT)
        assert (decision.bound is None) == (decision.verdict is not Verdict.PASS)
