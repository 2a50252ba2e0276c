# SPDX-License-Identifier: Apache-2.0
"""Pure. When did a rate change: the posterior of a change-point in passes and failures.

The model: up to a commit each run fails with one rate, from it on with another; both rates and the
commit are unknown. The rates have Jeffreys' prior Beta(1/2, 1/2) and are integrated out; each commit
is equally probable beforehand. Smith 1975, Biometrika 62:407-416, doi:10.1093/biomet/62.2.407.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import exp, lgamma, log
from typing import Final

from msgspec import Struct

_PRIOR: Final = 0.5
_MASS: Final = 0.95


class RunCounts(Struct, frozen=True, kw_only=True):
    """The runs of one commit."""

    passed: int
    failed: int


class ChangePoint(Struct, frozen=True, kw_only=True):
    """Where the rate changed.

    probability: that it changed at all; one half was assumed beforehand. by_commit: for each
    commit the probability that the new rate began with it, if one did. first, last: the shortest
    interval of commits that holds 95 % of it.
    """

    probability: float
    by_commit: tuple[float, ...]
    first: int
    last: int


def change_point(runs: Sequence[RunCounts]) -> ChangePoint | None:
    """The change in `runs`, in the order of their commits; None for fewer than two commits."""
    if len(runs) < 2:
        return None
    failed = list(accumulate(each.failed for each in runs))
    passed = list(accumulate(each.passed for each in runs))
    # Of each place: the evidence of the runs before it, and of those from it on.
    logs = [
        _evidence(failed[at - 1], passed[at - 1])
        + _evidence(failed[-1] - failed[at - 1], passed[-1] - passed[at - 1])
        for at in range(1, len(runs))
    ]
    highest = max(logs)
    weights = [exp(each - highest) for each in logs]
    total = sum(weights)
    # Never at the first commit: nothing lies before it.
    by_commit = (0.0, *(weight / total for weight in weights))
    changed = highest + log(total / len(weights))
    unchanged = _evidence(failed[-1], passed[-1])
    first, last = _interval(by_commit)
    return ChangePoint(
        probability=_share(changed, unchanged), by_commit=by_commit, first=first, last=last
    )


def _evidence(failed: int, passed: int) -> float:
    """The logarithm of the probability of these runs, over all rates."""
    return (
        lgamma(_PRIOR + failed)
        + lgamma(_PRIOR + passed)
        - lgamma(2 * _PRIOR + failed + passed)
        - 2 * lgamma(_PRIOR)
        + lgamma(2 * _PRIOR)
    )


def _share(one: float, other: float) -> float:
    """The share of `one`, of two logarithms of probabilities."""
    difference = other - one
    # exp() of more than 709 is no float.
    if difference > 700:
        return 0.0
    return 1 / (1 + exp(difference))


def _interval(probabilities: Sequence[float]) -> tuple[int, int]:
    """The ends of the shortest interval with 95 %; of equal ones the first."""
    best = (0, len(probabilities) - 1)
    start = 0
    mass = 0.0
    for end, probability in enumerate(probabilities):
        mass += probability
        while mass - probabilities[start] >= _MASS:
            mass -= probabilities[start]
            start += 1
        if mass >= _MASS and end - start < best[1] - best[0]:
            best = (start, end)
    return best
