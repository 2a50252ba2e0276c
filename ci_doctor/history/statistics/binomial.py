# SPDX-License-Identifier: Apache-2.0
"""Pure. The upper tail of the binomial distribution."""

from math import exp, lgamma, log, log1p


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
        term = _probability(count, trials, rate)
        total += term
        # Beyond the mean the terms fall ever faster: what is left is less than this one.
        if count > trials * rate and term < total * 1e-12:
            break
    return min(1.0, total)


def _probability(count: int, trials: int, rate: float) -> float:
    ways = lgamma(trials + 1) - lgamma(count + 1) - lgamma(trials - count + 1)
    return exp(ways + count * log(rate) + (trials - count) * log1p(-rate))
