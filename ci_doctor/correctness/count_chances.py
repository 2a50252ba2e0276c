# SPDX-License-Identifier: Apache-2.0
"""The exact test for a single fault, from counts alone. Pure.

`verdict/mix_test.py` tests whatever starts answered, over all labelings. If one request has one
wrong answer, the labelings need not be made: their numbers are products of binomial coefficients.
"""

import math
from collections.abc import Sequence

from ci_doctor.correctness.verdict.blocks import StartBlock


def mix_p(made: Sequence[StartBlock], faulty: Sequence[int]) -> tuple[float, list[float]]:
    """The p-value if the candidate's starts alone are faulty, and every p-value that can occur.

    `faulty` counts them by block. The number that a random labeling gives the candidate is a sum of
    hypergeometric variables; its distance from the mean is the difference that the test measures.
    """
    chances = [1.0]
    for block, count in zip(made, faulty, strict=True):
        chances = _convolved(chances, _hypergeometric(block, count))
    total = sum(faulty)
    candidate = sum(block.candidate for block in made)
    starts = sum(block.size for block in made)
    distances = [abs(starts * number - total * candidate) for number in range(total + 1)]
    p_values = []
    for distance in distances:
        tail = [
            chance for chance, other in zip(chances, distances, strict=True) if other >= distance
        ]
        p_values.append(math.fsum(tail))
    reached = [p for p, chance in zip(p_values, chances, strict=True) if chance]
    return p_values[total], reached


def _hypergeometric(block: StartBlock, faulty: int) -> list[float]:
    """The chances that 0, 1, … of the block's faulty starts are labelled as the candidate's."""
    ways = math.comb(block.size, block.candidate)
    chances = []
    for number in range(faulty + 1):
        others = math.comb(block.size - faulty, block.candidate - number)
        chances.append(math.comb(faulty, number) * others / ways)
    return chances


def _convolved(one: Sequence[float], other: Sequence[float]) -> list[float]:
    result = [0.0] * (len(one) + len(other) - 1)
    for index, chance in enumerate(one):
        for more, factor in enumerate(other):
            result[index + more] += chance * factor
    return result


def own_p(made: Sequence[StartBlock], faulty: Sequence[int]) -> float:
    """How often chance alone gives the candidate as many answers that the baseline never gave."""
    all_faulty = 1.0
    all_sound = 1.0
    for block, count in zip(made, faulty, strict=True):
        ways = math.comb(block.size, block.candidate)
        sound = block.size - count
        all_faulty *= _ways_with(block.size - count, block.candidate - count) / ways
        all_sound *= _ways_with(count, block.candidate - sound) / ways
    sound_starts = sum(block.size for block in made) - sum(faulty)
    if sound_starts < sum(faulty):
        all_sound = 0.0
    return all_faulty + all_sound


def _ways_with(places: int, labels: int) -> int:
    return math.comb(places, labels) if labels >= 0 else 0
