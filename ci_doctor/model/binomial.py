# SPDX-License-Identifier: Apache-2.0
"""Independent trials: the tail of the binomial distribution, and exact limits of a rate. Pure.

The limits are Clopper & Pearson's (1934, doi:10.1093/biomet/26.4.404).
"""

import math

_STEPS = 60


def upper_limit(events: int, trials: int, error: float) -> float:
    """The rate, from 0 to 1, above which `events` or fewer in `trials` have a chance below `error`.

    1 if each trial was an event, or if there was none.
    """
    if events >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_most(events, trials, middle) > error:
            low = middle
        else:
            high = middle
    return high


def lower_limit(events: int, trials: int, error: float) -> float:
    """The rate below which `events` or more in `trials` have a chance below `error`."""
    return 1.0 - upper_limit(trials - events, trials, error)


def _at_most(events: int, trials: int, rate: float) -> float:
    """The probability of `events` or fewer in `trials`, each with probability `rate`."""
    return math.fsum(
        math.comb(trials, count) * rate**count * (1 - rate) ** (trials - count)
        for count in range(events + 1)
    )


def upper_tail(hits: int, trials: int, rate: float) -> float:
    """The probability of at least `hits` of `trials`, if each hits with `rate` (0 to 1)."""
    if hits <= 0:
        return 1.0
    if rate <= 0 or hits > trials:
        return 0.0
    if rate >= 1:
        return 1.0
    total = 0.0
    for count in range(hits, trials + 1):
        ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
        term = math.exp(ways + count * math.log(rate) + (trials - count) * math.log1p(-rate))
        total += term
        # Beyond the mean the terms fall ever faster: what is left is less than this one.
        if count > trials * rate and term < total * 1e-12:
            break
    return min(1.0, total)
