# SPDX-License-Identifier: Apache-2.0
"""What a green verdict excludes on each request, whatever the noise and however early a run ends. Pure."""

from collections.abc import Collection, Sequence
from functools import lru_cache

from ci_doctor.correctness.verdict.decision import RequestBound
from ci_doctor.correctness.verdict.patterns import MISSING, Pattern, Patterns
from ci_doctor.model import binomial

# The confidence with which a bound excludes a fault.
CONFIDENCE = 0.95


def request_bounds(
    by_pattern: Patterns, baseline: Collection[int], candidate: Sequence[int]
) -> tuple[RequestBound, ...]:
    """The bound of each request, the largest first.

    `baseline` and `candidate` are the places of the arms' starts in the patterns. A candidate start
    differs if it gave no answer, or one that no baseline start gave.
    """
    bounds: list[RequestBound] = []
    for pattern, requests in by_pattern.items():
        differed = _own(pattern, baseline, candidate)
        bound = upper_limit(differed, len(candidate))
        for request in requests:
            each = RequestBound(
                request=request, differed=differed, starts=len(candidate), bound=bound
            )
            bounds.append(each)
    return tuple(sorted(bounds, key=lambda each: -each.bound))


def _own(pattern: Pattern, baseline: Collection[int], candidate: Sequence[int]) -> int:
    known = {pattern[place] for place in baseline} - {MISSING}
    return sum(pattern[place] not in known for place in candidate)


@lru_cache(maxsize=4096)
def upper_limit(differed: int, starts: int) -> float:
    """The share of faulty starts, from 0 to 1, that `differed` of `starts` do not exclude.

    Clopper & Pearson's exact limit (1934, doi:10.1093/biomet/26.4.404), with the error 0.05 divided
    over the possible numbers: a half for 0, a quarter for 1, and so on. The number of faulty starts
    never falls while an experiment goes on. So for each number the first moment at which the limit
    would be untrue is the only one that counts, and the limit holds at whatever moment it ends.
    """
    error = (1 - CONFIDENCE) / 2 ** (differed + 1)
    return binomial.upper_limit(differed, starts, error)
