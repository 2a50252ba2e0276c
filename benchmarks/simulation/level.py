# SPDX-License-Identifier: Apache-2.0
"""Whether the test is exact: against brute force, and how often it rejects where there is nothing to find."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from random import Random
from typing import NamedTuple

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.mix_test import Labels, mix_test, patterns, traits
from ci_doctor.correctness.verdict.starts import ArmStart
from simulation.harness import SEED
from simulation.quiet import EXCHANGEABLE
from simulation.scenario import Scenario
from simulation.servers import Servers
from simulation.worlds import REQUESTS, Answers

CASES = 300
ALPHA = 0.05
# The blocks of the first look: a pair, and three and five starts.
BLOCKS = (0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
CANDIDATE = (False, True, True, True, True, True, True, False, False, False)
_ROUNDING = 1e-9
_OF_A_TABLE = 1 - 1e-6

Labeling = tuple[bool, ...]


class Tested(NamedTuple):
    """How many of `runs` tests of ten starts rejected, in one world."""

    scenario: str
    rejected: int
    runs: int

    @property
    def within(self) -> bool:
        return self.rejected <= ALPHA * self.runs


def p_value(answers: Sequence[Answers], labels: Labels) -> float:
    """That of the project's test; 1 where all answers are equal."""
    names = REQUESTS[: len(answers[0])]
    starts = [
        ArmStart(arm=Arm.BASELINE, number=number, answers=dict(zip(names, each, strict=True)))
        for number, each in enumerate(answers, 1)
    ]
    given = traits(patterns(starts, names), [False] * len(starts))
    return mix_test(given, labels).p if given.columns else 1.0


def brute(answers: Sequence[Answers], labels: Labels) -> float:
    """The p-value by the book: the largest difference of every labeling, one after the other."""
    columns = [list(each) for each in zip(*answers, strict=True)]
    every = list(_labelings(labels))
    largest = [_largest(columns, labeling) for labeling in every]
    real = _largest(columns, labels.candidate)
    return sum(each >= real - _ROUNDING for each in largest) / len(every)


def _labelings(labels: Labels) -> Iterator[Labeling]:
    """Every way to draw as many candidate starts in each block."""
    blocks: dict[int, list[int]] = {}
    for start, block in enumerate(labels.block):
        blocks.setdefault(block, []).append(start)
    sizes = Counter(
        block for block, is_one in zip(labels.block, labels.candidate, strict=True) if is_one
    )
    for chosen in product(*(combinations(each, sizes[block]) for block, each in blocks.items())):
        candidates = {start for part in chosen for start in part}
        yield tuple(start in candidates for start in range(len(labels.block)))


def _largest(columns: Sequence[Sequence[str | None]], labeling: Labeling) -> float:
    differences = [0.0]
    for column in columns:
        traits = [[each == answer for each in column] for answer in set(column)]
        differences += [_chi_squared(trait, labeling) for trait in traits]
        times = Counter(column)
        pooled = [each if times[each] > 1 else "once" for each in column]
        if len(set(pooled)) > 2:
            differences.append(_OF_A_TABLE * _chi_squared(pooled, labeling))
    failures = [sum(column[start] is None for column in columns) for start in range(len(labeling))]
    alone = [0] * len(labeling)
    for column in columns:
        for start, answer in enumerate(column):
            alone[start] += answer is not None and column.count(answer) == 1
    for counts in (failures, alone):
        average = sum(counts) / len(counts)
        differences.append(_bad([count > average for count in counts], labeling))
    return max(differences)


def _bad(trait: Sequence[bool], labeling: Labeling) -> float:
    """Chi squared of a trait, 0 where the candidate does not have it more often."""
    size = sum(labeling)
    among = sum(has for has, is_one in zip(trait, labeling, strict=True) if is_one)
    is_more = among * len(labeling) > sum(trait) * size
    return _chi_squared(trait, labeling) if is_more else 0.0


def _chi_squared(values: Sequence[object], labeling: Labeling) -> float:
    """Pearson's chi squared of values and labels, over the number of starts."""
    starts = len(labeling)
    cells = Counter(zip(values, labeling, strict=True))
    total = 0.0
    for value, times in Counter(values).items():
        for label, size in Counter(labeling).items():
            expected = times * size / starts
            total += (cells[value, label] - expected) ** 2 / expected
    return total / starts


def against_brute_force(cases: int = CASES) -> list[str]:
    """Random small cells, some answers missing; a line for each where the test is not what brute force says."""
    rng, wrong = Random(SEED), []
    for case in range(cases):
        answers, labels = _cell(rng)
        p, expected = p_value(answers, labels), brute(answers, labels)
        is_equal = all(len(set(each)) == 1 for each in zip(*answers, strict=True))
        if not is_equal and abs(p - expected) > _ROUNDING:
            wrong.append(f"case {case}: p {p:.5f}, by brute force {expected:.5f}")
    return wrong


def _cell(rng: Random) -> tuple[list[Answers], Labels]:
    """Some starts in two blocks; some requests follow the mode of the start, the others nothing."""
    block, candidate = [], []
    for number in range(2):
        labels = [True] * rng.randint(1, 3) + [False] * rng.randint(1, 3)
        rng.shuffle(labels)
        candidate += labels
        block += [number] * len(labels)
    outcomes = "abcdefgh"[: rng.randint(1, 6)]
    modes = rng.choices(outcomes, k=len(block))
    requests = rng.randint(1, 6)
    follows = [rng.random() < 0.5 for _ in range(requests)]
    answers = []
    for mode in modes:
        given = (mode if each else rng.choice(outcomes) for each in follows)
        answers.append(tuple(None if rng.random() < 0.05 else each for each in given))
    return answers, Labels(candidate=tuple(candidate), block=tuple(block))


def level(scenario: Scenario, runs: int) -> Tested:
    """The test alone, after ten starts, without what the verdict asks for besides."""
    rng = Random(f"{SEED} level {scenario.name}")
    labels = Labels(candidate=CANDIDATE, block=BLOCKS)
    rejected = 0
    for _ in range(runs):
        servers = Servers(scenario, rng)
        answers = [servers.ask(Arm.BASELINE) for _ in BLOCKS]
        rejected += p_value(answers, labels) <= ALPHA
    return Tested(scenario.name, rejected, runs)


def levels(runs: int) -> list[Tested]:
    """Over worlds whose starts are exchangeable: there P(p <= alpha) <= alpha is a theorem."""
    return [level(scenario, runs) for scenario in EXCHANGEABLE]
