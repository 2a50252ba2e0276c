# SPDX-License-Identifier: Apache-2.0
"""Pure. Hours of an agent in which so much failed that the tests are not to blame.

In a picture of tests against time a flaky test is scattered dots, and a broken machine is a full
column. A column may be the fault of the change, too: one counts as infrastructure only if the same
commit did well on another agent or at another hour.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from ci_doctor.model.binomial import upper_tail

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
    usual = median(_share(cell) for cell in cells.values())
    # One failure in a thousand, if nothing ever fails.
    usual = max(usual, 0.001)
    limit = _CHANCE / len(cells)
    full = {place for place, cell in cells.items() if _is_full(cell, usual, limit)}
    good_commits = _commits_doing_well(cells, full)
    return tuple(_column(place, cells[place], good_commits) for place in sorted(full))


def _share(cell: Iterable[JobResult]) -> float:
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
