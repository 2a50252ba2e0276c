# SPDX-License-Identifier: Apache-2.0
"""Pure. Wilson's interval for a rate."""

from math import sqrt
from typing import Final

from msgspec import Struct

_Z: Final = 1.959963984540054  # of the normal distribution: 95 % lie within


class RateInterval(Struct, frozen=True, kw_only=True):
    """A rate (0 to 1), and the ends of its 95 % interval."""

    rate: float
    low: float
    high: float


def wilson(hits: int, trials: int) -> RateInterval:
    """The share `hits` / `trials` with its 95 % score interval; 0 to 1 without a trial.

    Wilson 1927, J. Amer. Stat. Assoc. 22:209-212, doi:10.1080/01621459.1927.10502953. It covers what
    it says also for few trials and for rates near 0 and 1 (Brown, Cai & DasGupta 2001,
    doi:10.1214/ss/1009213286).
    """
    if trials == 0:
        return RateInterval(rate=0.0, low=0.0, high=1.0)
    rate = hits / trials
    square = _Z * _Z
    centre = (rate + square / (2 * trials)) / (1 + square / trials)
    spread = sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    half = _Z * spread / (1 + square / trials)
    # The ends of 0 of n and n of n are 0 and 1; rounding would leave 1e-17 of them.
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    high = 1.0 if hits == trials else min(1.0, centre + half)
    return RateInterval(rate=rate, low=low, high=high)
