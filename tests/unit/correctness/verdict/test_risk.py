# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Sequence
from random import Random

import pytest

from ci_doctor.correctness.settings import Arm, Rules
from ci_doctor.correctness.verdict.compare import ArmStart
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.decision import Decision, VerdictEvidence
from ci_doctor.correctness.verdict.risk import (
    any_pair_risk,
    clean_starts,
    level,
    rare_bug_bound,
    rare_bug_risk,
    remaining_risk,
)
from ci_doctor.correctness.verdict.schedule import next_arm
from ci_doctor.model.verdict import Verdict

DEFAULT = Rules()
NIGHTLY = Rules(retries=4, least_candidates=4)
EXPERIMENTS = 200
# 5 % are promised: of 200 experiments 10, and 5 standard deviations more.
MOST_FALSE = 25


@pytest.mark.parametrize(
    ("smallest_p", "patterns", "expected"),
    [
        (1 / 56, 1, 0.036),
        (1 / 56, 2, 0.036),
        (1 / 56, 3, 0.02),
        # The smallest p that the starts can reach is always enough, up to alpha itself.
        (0.04, 3, 0.04),
        (0.5, 1, 0.05),
    ],
)
def test_more_patterns_use_up_more_of_the_allowed_error_rate(
    smallest_p: float, patterns: int, expected: float
) -> None:
    assert level(0.05, smallest_p, patterns) == pytest.approx(expected)


@pytest.mark.parametrize("clean", [1, 3, 8, 59])
def test_a_bug_as_frequent_as_the_bound_stays_hidden_with_probability_alpha(clean: int) -> None:
    assert (1 - rare_bug_bound(clean, 0.05)) ** clean == pytest.approx(0.05)


def test_the_sentences_name_the_figures() -> None:
    assert rare_bug_risk(1, 0.05) == (
        "a bug that shows in less than 95% of starts can hide behind 1 clean candidate start "
        "(at 95% confidence); so can any bug whose answers the baseline gave too"
    )
    assert "pass 87.5% of the time" in any_pair_risk(3)


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.001])
def test_a_printed_share_is_never_below_the_bound(alpha: float) -> None:
    for clean in range(1, 100):
        sentence = rare_bug_risk(clean, alpha)
        shown = float(sentence.split("%")[0].split()[-1])
        assert -1e-9 <= shown - 100 * rare_bug_bound(clean, alpha) < 1


def test_a_high_confidence_is_not_rounded_to_certainty() -> None:
    assert "(at 99.9% confidence)" in rare_bug_risk(3, 0.001)


def evidence(baseline: Sequence[str], candidate: Sequence[str]) -> VerdictEvidence:
    """A start a word, a request a letter; `-` is no answer, `!` a failure."""
    arms: dict[Arm, list[ArmStart]] = {Arm.BASELINE: [], Arm.CANDIDATE: []}
    for arm, words in zip(Arm, (baseline, candidate), strict=True):
        for number, word in enumerate(words, start=1):
            answers = {f"r{index}": letter for index, letter in enumerate(word.rstrip("!"))}
            given = {key: None if letter == "-" else letter for key, letter in answers.items()}
            start = ArmStart(arm=arm, number=number, answers=given, failed="!" in word)
            arms[arm].append(start)
    return VerdictEvidence(
        baseline=arms[Arm.BASELINE],
        candidate=arms[Arm.CANDIDATE],
        requests=["r0", "r1"],
        complete=True,
        lost=False,
    )


@pytest.mark.parametrize(
    ("baseline", "candidate", "clean"),
    [
        (["xy"], ["xy", "xy"], 2),
        (["xy", "ab"], ["ab", "xy", "xb"], 2),  # of two modes, and of a mixture of both
        (["xy", "xz", "xy"], ["xq", "xy"], 1),  # what noise may explain
        (["xy"], ["x-", "xy"], 1),
        (["x-", "xy"], ["x-"], 0),
        (["xy"], ["xy!"], 0),
        (["xy!", "ab"], ["xy"], 0),
    ],
)
def test_a_start_is_clean_if_it_answers_as_one_baseline_start_did(
    baseline: list[str], candidate: list[str], clean: int
) -> None:
    assert clean_starts(evidence(baseline, candidate)) == clean


def test_under_noise_no_share_is_named() -> None:
    sentence, bound = remaining_risk(evidence(["xy", "xz", "xy"], ["xq", "xy"]), 0.05)
    assert bound is None
    assert "%" not in sentence
    assert "1 of 2 candidate starts differ from every baseline start" in sentence


# --- over simulated servers; the whole: benchmarks/printed_risk.py ---


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
