# SPDX-License-Identifier: Apache-2.0
"""Whether the permutation test is exact: against brute force, and how often it rejects where there is nothing to find."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from random import Random
from typing import NamedTuple

from ci_doctor.correctness.verdict.permutation import partition, permutation_test
from simulation.harness import SEED, asker
from simulation.scenarios import QUIET, Scenario
from simulation.worlds import BOTH, Answers

CASES = 400
ALPHA = 0.05
# Worlds whose starts are exchangeable: the label is chance, so P(p <= alpha) <= alpha is a theorem.
EXCHANGEABLE = ("S1", "S1b", "S1c", "S1e", "S1f", "Q1", "Q2", "Q4", "Q5", "Q6", "Q7", "Q8", "Q10")


class Level(NamedTuple):
    """How many of `runs` tests of (5, 3) starts rejected, in one world."""

    scenario: str
    rejected: int
    runs: int

    @property
    def within(self) -> bool:
        return self.rejected <= ALPHA * self.runs


def brute(answers: Sequence[Sequence[str | None]], candidates: Sequence[int]) -> tuple[int, int]:
    """Labelings as extreme as the observed one, and all of them, by the book: sets of answers for every labeling."""
    starts = range(len(answers))

    def disputed(labeling: Sequence[int]) -> int:
        number = 0
        for request in range(len(answers[0])):
            baseline = {answers[start][request] for start in starts if start not in labeling} - {
                None
            }
            candidate = {answers[start][request] for start in labeling} - {None}
            number += not baseline & candidate
        return number

    labelings = [frozenset(each) for each in combinations(starts, len(candidates))]
    observed = disputed(candidates)
    return sum(disputed(tuple(each)) >= observed for each in labelings), len(labelings)


def against_brute_force(cases: int = CASES) -> list[str]:
    """Random small cells, some answers missing; a line for each where the test is not what brute force says."""
    rng, wrong = Random(SEED), []
    for case in range(cases):
        baseline, candidate = rng.randint(1, 5), rng.randint(1, 4)
        outcomes = "abcdefgh"[: rng.randint(1, 6)]
        total, requests = baseline + candidate, rng.randint(1, 8)
        alike = rng.random()  # the share of requests that follow the start's mode
        modes = rng.choices(outcomes, k=total)
        follows = [rng.random() < alike for _ in range(requests)]
        answers = [
            [
                None
                if rng.random() < 0.05
                else modes[start]
                if follows[n]
                else rng.choice(outcomes)
                for n in range(requests)
            ]
            for start in range(total)
        ]
        labeled = rng.sample(range(total), candidate)
        mask = sum(1 << start for start in labeled)
        partitions = [
            partition([answers[start][n] for start in range(total)]) for n in range(requests)
        ]
        test = permutation_test(Counter(partitions), mask, total)
        if (test.extreme, test.labelings) != (expected := brute(answers, labeled)):
            wrong.append(
                f"case {case}: {test.extreme}/{test.labelings}, by brute force {expected[0]}/{expected[1]}"
            )
    return wrong


def level(scenario: Scenario, runs: int, baseline: int = 5, candidate: int = 3) -> Level:
    """The test alone, at every run's end, without what the verdict asks for besides."""
    rng, total = Random(f"{SEED} level {scenario.name}"), baseline + candidate
    mask, rejected = (1 << candidate) - 1, 0
    known: dict[tuple[Answers, ...], bool] = {}
    for _ in range(runs):
        ask = asker(scenario, rng)
        starts = tuple(ask(BOTH[0]) for _ in range(total))
        if starts not in known:
            test = permutation_test(
                Counter(partition(each) for each in zip(*starts, strict=True)), mask, total
            )
            known[starts] = test.p <= ALPHA
        rejected += known[starts]
    return Level(scenario.name, rejected, runs)


def levels(runs: int) -> list[Level]:
    return [level(scenario, runs) for scenario in QUIET if scenario.name in EXCHANGEABLE]
