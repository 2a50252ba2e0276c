# SPDX-License-Identifier: Apache-2.0
"""Pure. Fisher's exact test, and what equal starts exclude."""

from math import comb
from typing import Final

_STEPS: Final = 60


def fisher_p(first: int, first_of: int, second: int, second_of: int) -> float:
    """The two-sided p-value of `first` of `first_of` against `second` of `second_of`.

    The share of all tables with these margins that are no more likely than the real one (Fisher
    1935, The Design of Experiments). It is 1 if a group is empty.
    """
    total = first + second
    counts = range(max(0, total - second_of), min(total, first_of) + 1)
    weights = [comb(first_of, count) * comb(second_of, total - count) for count in counts]
    real = comb(first_of, first) * comb(second_of, second)
    extreme = [weight for weight in weights if weight <= real]
    return sum(extreme) / sum(weights)


def equal_starts_probability(starts: int, rate: float) -> float:
    """The probability that all starts are equal, if each is of a second kind with this rate.

    All are of the first kind, or all of the second.
    """
    return (1 - rate) ** starts + rate**starts


def highest_missed_rate(starts: int, risk: float = 0.05) -> float:
    """The highest rate (0 to 0.5) of a second kind that so many equal starts miss with this risk.

    The exact form of the rule of three, which takes 3 / starts for a risk of 0.05. It is 0.5, and
    nothing is excluded, for a few starts.
    """
    low, high = 0.0, 0.5
    if equal_starts_probability(starts, high) >= risk:
        return high
    # The probability falls from 1 as the rate grows to one half.
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if equal_starts_probability(starts, middle) >= risk:
            low = middle
        else:
            high = middle
    return high
