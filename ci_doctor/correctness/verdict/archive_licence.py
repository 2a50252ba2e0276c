# SPDX-License-Identifier: Apache-2.0
"""What the archive's starts license: an answer that enough independent builds have given. Pure.

Starts of one build share its machine, its caches and its faults, so the unit is the build. A build
with several starts counts with the share of them that gave the answer: otherwise a rare mode would
look frequent only because each build had many chances to show it.
"""

import math
from collections.abc import Iterable
from fractions import Fraction

from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.compare import ArmStart

# One bad build excuses nothing.
FEWEST_BUILDS = 2
# A candidate that shows an answer more often than this makes likely has a rate of its own.
_ALPHA = 0.05
# From six builds on one of them may have had another mode of the environment.
MANY_BUILDS = 6
_MOST_OF_MANY = Fraction(5, 6)


def licensed(builds_with: int, builds: int, starts_with: int, starts: int) -> bool:
    """Whether an answer of `builds_with` of `builds` archived builds licenses the candidate's.

    The candidate gave it in `starts_with` of `starts` starts. It is licensed if at least two
    independent builds gave it, and the candidate's share is no higher than their rate makes likely:
    Fisher's exact test, one-sided (Fisher 1935, The Design of Experiments, 21), gives p > 0.05.
    """
    if builds_with < FEWEST_BUILDS:
        return False
    return excess_p(builds_with, builds, starts_with, starts) > _ALPHA


def excess_p(builds_with: int, builds: int, starts_with: int, starts: int) -> float:
    """The chance of at least `starts_with` of `starts`, if builds and starts share one rate.

    The upper tail of the hypergeometric distribution, given the number of all that show the answer.
    """
    showing = builds_with + starts_with
    total = builds + starts
    ways = 0
    for count in range(starts_with, min(showing, starts) + 1):
        ways += math.comb(showing, count) * math.comb(total - showing, starts - count)
    return ways / math.comb(total, starts)


def agrees_by_share(agreeing: int, builds: int) -> bool:
    """Whether an answer of `agreeing` of `builds` is the archive's usual one.

    It is that of all builds, or of 5/6 of six and more. True without any, which then say nothing.
    """
    if builds < MANY_BUILDS:
        return agreeing == builds
    return Fraction(agreeing, builds) >= _MOST_OF_MANY


def replaces_baseline(starts: Iterable[ArmStart], rules: Rules) -> bool:
    """Whether the archived ones of `starts` stand in for a baseline start of today."""
    return independent_builds(starts) >= rules.archive_builds


def independent_builds(starts: Iterable[ArmStart]) -> int:
    """How many independent builds made the archived ones of these starts."""
    return len(by_build(starts))


def by_build(starts: Iterable[ArmStart]) -> dict[str | None, list[ArmStart]]:
    """The archived ones of these starts, by their build.

    Starts of unknown builds (None) count as one build together: nothing shows that they are more.
    """
    builds: dict[str | None, list[ArmStart]] = {}
    for start in starts:
        if start.archived:
            builds.setdefault(start.build, []).append(start)
    return builds
