# SPDX-License-Identifier: Apache-2.0
"""Pure. Rates with their intervals, when a rate changed, and hours in which an agent was to blame."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import exp, lgamma, log, sqrt
from statistics import median
from typing import Final

from msgspec import Struct

from ci_doctor.history.evidence import utc_text
from ci_doctor.model.binomial import upper_tail
from ci_doctor.model.facts.history import ColumnFacts, RateFacts

# --- wilson's interval for a rate ---

_Z: Final = 1.959963984540054  # of the normal distribution: 95 % lie within


def wilson(hits: int, trials: int) -> RateFacts:
    """The share `hits` / `trials` with its 95 % score interval, to six digits; 0 to 1 without a trial.

    Wilson 1927, J. Amer. Stat. Assoc. 22:209-212, doi:10.1080/01621459.1927.10502953. It covers what
    it says also for few trials and for rates near 0 and 1 (Brown, Cai & DasGupta 2001,
    doi:10.1214/ss/1009213286).
    """
    if trials == 0:
        return RateFacts(rate=0.0, low=0.0, high=1.0)
    rate = hits / trials
    square = _Z * _Z
    centre = (rate + square / (2 * trials)) / (1 + square / trials)
    spread = sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    half = _Z * spread / (1 + square / trials)
    # The ends of 0 of n and n of n are 0 and 1.
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return RateFacts(rate=round(rate, 6), low=round(low, 6), high=round(high, 6))


# --- when did a rate change: the posterior of a change-point in passes and failures ---
# The model: up to a commit each run fails with one rate, from it on with another; both rates and the
# commit are unknown. The rates have Jeffreys' prior Beta(1/2, 1/2) and are integrated out; each commit
# is equally probable beforehand. Smith 1975, Biometrika 62:407-416, doi:10.1093/biomet/62.2.407.

_PRIOR: Final = 0.5
_MASS: Final = 0.95


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


# A change of at least this probability is named.
NAMED_FROM: Final = 0.95


def change_point(runs: Sequence[tuple[int, int]]) -> ChangePoint | None:
    """The change in `runs`, passed and failed ones of each commit in order; None for fewer than two commits."""
    if len(runs) < 2:
        return None
    failed = list(accumulate(failed for _, failed in runs))
    passed = list(accumulate(passed for passed, _ in runs))
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
    # The share of one of two logarithms. exp() of more than 709 is no float.
    difference = unchanged - changed
    share = 0.0 if difference > 700 else 1 / (1 + exp(difference))
    return ChangePoint(probability=share, by_commit=by_commit, first=first, last=last)


def _evidence(failed: int, passed: int) -> float:
    """The logarithm of the probability of these runs, over all rates."""
    return (
        lgamma(_PRIOR + failed)
        + lgamma(_PRIOR + passed)
        - lgamma(2 * _PRIOR + failed + passed)
        - 2 * lgamma(_PRIOR)
        + lgamma(2 * _PRIOR)
    )


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


# --- hours of an agent in which so much failed that the tests are not to blame ---
# In a picture of tests against time a flaky test is scattered dots, and a broken machine is a full
# column. A column may be the fault of the change, too: one counts as infrastructure only if the same
# commit did well on another agent or at another hour.

HOUR_MS: Final = 3_600_000
# A column with this probability among all columns is no chance.
_CHANCE: Final = 1e-6
_FEWEST: Final = 3  # failures
_SHARE: Final = 0.1  # of what ran: below it a column is no picture of a broken machine


class JobResult(Struct, frozen=True):
    """What came of one job. red: attempts that failed, whatever the reason."""

    job: int
    agent: str
    commit: int | None
    started_ms: int
    passed: int
    red: int


class FailureColumn(Struct, frozen=True, kw_only=True):
    """One agent in one hour, which is since 1970. jobs: their numbers."""

    hour: int
    jobs: tuple[int, ...]
    facts: ColumnFacts


def failure_columns(jobs: Iterable[JobResult]) -> tuple[FailureColumn, ...]:
    """The columns with far more failures than usual, by hour and agent.

    Usual is the median share of failures over all columns. The test is binomial, with the
    probability divided by the number of columns (Bonferroni).
    """
    cells: dict[tuple[int, str], list[JobResult]] = defaultdict(list)
    for job in jobs:
        if job.passed + job.red:
            cells[job.started_ms // HOUR_MS, job.agent].append(job)
    if not cells:
        return ()
    sums = {
        place: (sum(job.passed for job in cell), sum(job.red for job in cell))
        for place, cell in cells.items()
    }
    # One failure in a thousand, if nothing ever fails.
    usual = max(median(red / (passed + red) for passed, red in sums.values()), 0.001)
    full = {
        place
        for place, (passed, red) in sums.items()
        if red >= max(_FEWEST, _SHARE * (passed + red))
        and upper_tail(red, passed + red, usual) < _CHANCE / len(cells)
    }
    # Commits that another column shows without an unusual share of failures.
    good_commits = {job.commit for place in cells.keys() - full for job in cells[place]} - {None}
    return tuple(
        FailureColumn(
            hour=place[0],
            jobs=tuple(job.job for job in cells[place]),
            facts=ColumnFacts(
                agent=place[1],
                hour=utc_text(place[0] * HOUR_MS),
                passed=sums[place][0],
                failed=sums[place][1],
                is_infra=all(job.commit in good_commits for job in cells[place] if job.red),
            ),
        )
        for place in sorted(full)
    )
