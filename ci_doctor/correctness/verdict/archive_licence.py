# SPDX-License-Identifier: Apache-2.0
"""What the archive's starts license: an answer that enough independent builds have given. Pure.

Starts of one build share its machine, its caches and its faults, so the unit is the build. A build
with several starts counts with the share of them that gave the answer: otherwise a rare mode would
look frequent only because each build had many chances to show it.
"""

import math
from collections.abc import Iterable
from fractions import Fraction

from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import Answer, ArmStart, of_arm

# One bad build excuses nothing.
FEWEST_BUILDS = 2
# A candidate that shows an answer more often than this makes likely has a rate of its own.
_ALPHA = 0.05
# From six builds on one of them may have had another mode of the environment.
_MANY_BUILDS = 6
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


def is_licensed(starts: Iterable[ArmStart], request: str, answer: Answer) -> bool:
    """Whether the archived ones of `starts` license that the candidate gives `answer`.

    A missing answer (None) is never licensed. Candidate starts without any answer do not count.
    """
    if answer is None:
        return False
    everything = list(starts)
    shares = _shares(everything, request, answer)
    candidate = [start for start in of_arm(everything, Arm.CANDIDATE) if start.answered]
    given = [start for start in candidate if start.answers.get(request) == answer]
    # Rounded down: a part of a build is none.
    builds_with = math.floor(sum(shares))
    return licensed(builds_with, len(shares), len(given), len(candidate))


def agreeing_share(starts: Iterable[ArmStart], request: str, answer: Answer) -> Fraction:
    """The share of independent builds whose every archived start gave `answer`; 1 without any.

    A build that gave another answer too does not agree.
    """
    shares = _shares(starts, request, answer)
    if not shares:
        return Fraction(1)
    return Fraction(shares.count(Fraction(1)), len(shares))


def agrees(starts: Iterable[ArmStart], request: str, answer: Answer) -> bool:
    """Whether `answer` is the archive's usual one: that of all builds, or of 5/6 of six and more.

    True without archived starts, which then say nothing.
    """
    builds = by_build(starts)
    agreeing = 0
    for made in builds.values():
        agreeing += all(start.answers.get(request) == answer for start in made)
    return agrees_by_share(agreeing, len(builds))


def agrees_by_share(agreeing: int, builds: int) -> bool:
    """Whether `agreeing` of `builds` make an answer the usual one; see `agrees`."""
    if builds < _MANY_BUILDS:
        return agreeing == builds
    return Fraction(agreeing, builds) >= _MOST_OF_MANY


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


def _shares(starts: Iterable[ArmStart], request: str, answer: Answer) -> list[Fraction]:
    """For each independent build the share of its archived starts that gave `answer`."""
    shares = []
    for made in by_build(starts).values():
        given = [start for start in made if start.answers.get(request) == answer]
        shares.append(Fraction(len(given), len(made)))
    return shares
