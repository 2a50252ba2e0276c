# SPDX-License-Identifier: Apache-2.0
"""Pure. Rates with their intervals, when a rate changed, and hours in which an agent was to blame."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import exp, lgamma, log, sqrt
from statistics import median
from typing import Final

from msgspec import Struct

from ci_doctor.model.binomial import upper_tail
from ci_doctor.model.facts.history import RateFacts

# --- wilson's interval for a rate ---

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


# --- rates for reports ---


def rate_facts(hits: int, trials: int) -> RateFacts:
    """The share with its interval, rounded to what a reader can use."""
    interval = wilson(hits, trials)
    return RateFacts(
        rate=round(interval.rate, 6), low=round(interval.low, 6), high=round(interval.high, 6)
    )


# --- when did a rate change: the posterior of a change-point in passes and failures ---
# The model: up to a commit each run fails with one rate, from it on with another; both rates and the
# commit are unknown. The rates have Jeffreys' prior Beta(1/2, 1/2) and are integrated out; each commit
# is equally probable beforehand. Smith 1975, Biometrika 62:407-416, doi:10.1093/biomet/62.2.407.

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


# --- hours of an agent in which so much failed that the tests are not to blame ---
# In a picture of tests against time a flaky test is scattered dots, and a broken machine is a full
# column. A column may be the fault of the change, too: one counts as infrastructure only if the same
# commit did well on another agent or at another hour.

HOUR_MS: Final = 3_600_000
# A column with this probability among all columns is no chance.
_CHANCE: Final = 1e-6
_FEWEST: Final = 3  # failures
_SHARE: Final = 0.1  # of what ran: below it a column is no picture of a broken machine


class JobResult(Struct, frozen=True, kw_only=True):
    """What came of one job. red: attempts that failed, whatever the reason."""

    job: int
    agent: str
    commit: int | None
    started_ms: int
    passed: int
    red: int


class FailureColumn(Struct, frozen=True, kw_only=True):
    """One agent in one hour. jobs: their numbers. is_infra: False if the change may be the cause."""

    agent: str
    hour: int
    jobs: tuple[int, ...]
    passed: int
    red: int
    is_infra: bool


def failure_columns(jobs: Sequence[JobResult]) -> tuple[FailureColumn, ...]:
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
    usual = median(_red_share(cell) for cell in cells.values())
    # One failure in a thousand, if nothing ever fails.
    usual = max(usual, 0.001)
    limit = _CHANCE / len(cells)
    full = {place for place, cell in cells.items() if _is_full(cell, usual, limit)}
    good_commits = _commits_doing_well(cells, full)
    return tuple(_column(place, cells[place], good_commits) for place in sorted(full))


def _red_share(cell: Iterable[JobResult]) -> float:
    passed, red = _sums(cell)
    return red / (passed + red)


def _sums(cell: Iterable[JobResult]) -> tuple[int, int]:
    passed = red = 0
    for job in cell:
        passed += job.passed
        red += job.red
    return passed, red


def _is_full(cell: Sequence[JobResult], usual: float, limit: float) -> bool:
    passed, red = _sums(cell)
    if red < _FEWEST or red < _SHARE * (passed + red):
        return False
    return upper_tail(red, passed + red, usual) < limit


def _commits_doing_well(
    cells: dict[tuple[int, str], list[JobResult]], full: set[tuple[int, str]]
) -> set[int]:
    """Commits that another column shows without an unusual share of failures."""
    good = set()
    for place, cell in cells.items():
        if place in full:
            continue
        for job in cell:
            if job.commit is not None:
                good.add(job.commit)
    return good


def _column(
    place: tuple[int, str], cell: Sequence[JobResult], good_commits: set[int]
) -> FailureColumn:
    passed, red = _sums(cell)
    hour, agent = place
    failing = [job for job in cell if job.red]
    return FailureColumn(
        agent=agent,
        hour=hour,
        jobs=tuple(job.job for job in cell),
        passed=passed,
        red=red,
        is_infra=all(job.commit in good_commits for job in failing),
    )
