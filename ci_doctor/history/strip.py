# SPDX-License-Identifier: Apache-2.0
"""Reads a database: tests against time, for the page of the history."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Final

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.history.branches import branch_number
from ci_doctor.history.flaky import WindowSums, mixed_commits, names_of, sums_of
from ci_doctor.history.infra_columns import column_facts, columns_of, failures_in
from ci_doctor.history.rates import rate_facts
from ci_doctor.history.reading.moments import utc_text
from ci_doctor.history.schema import ALL_BRANCHES, ATTEMPT, JOB
from ci_doctor.history.statistics.columns import HOUR_MS, FailureColumn
from ci_doctor.history.window import HistoryWindow
from ci_doctor.model.facts.history import HistoryReportFacts, StripRow

_MOST_ROWS: Final = 200
_MOST_COLUMNS: Final = 100
_HOURS: Final = (1, 2, 3, 4, 6, 8, 12, 24, 48, 168)
_EMPTY: Final = "."
_DIVISION: Final = 8  # above that of a sum, which gets its brackets then


class _Grid(Struct, frozen=True, kw_only=True):
    """The columns of the strip: `count` of `width_ms` each, from `begin_ms` on."""

    begin_ms: int
    width_ms: int
    count: int

    def place(self, moment_ms: int) -> int:
        return (moment_ms - self.begin_ms) // self.width_ms


def strip_facts(connection: sa.Connection, window: HistoryWindow) -> HistoryReportFacts:
    """The tests that failed in the window, the likeliest flaky ones first, 200 at most.

    Raises UsageError for an unknown branch.
    """
    branch = branch_number(connection, window.branch)
    columns = columns_of(connection, window)
    in_columns = failures_in(connection, columns)
    mixed = mixed_commits(connection, window, branch, in_columns)
    sums = sums_of(connection, window, branch, in_columns)
    failing = [each for each in sums if each.failed or each.infra]
    failing.sort(key=lambda each: _flakiness(each, mixed[each.test]))
    chosen = failing[:_MOST_ROWS]
    grid = _grid(connection, window)
    cells = _cells(connection, window, branch, grid, [each.test for each in chosen])
    names = names_of(connection, [each.test for each in chosen])
    return HistoryReportFacts(
        since=utc_text(window.since_ms),
        until=utc_text(window.until_ms),
        branch=window.branch,
        column_s=grid.width_ms / 1000,
        history_strip=tuple(
            _row(each, names[each.test], mixed, cells[each.test]) for each in chosen
        ),
        begins=tuple(utc_text(grid.begin_ms + at * grid.width_ms) for at in range(grid.count)),
        infra=_infra_places(columns, grid),
        columns=column_facts(columns),
        failing_tests=len(failing),
        outside_tests=sum(not each.failed for each in failing),
        tests=len(sums),
        attempts=sum(each.passed + each.failed + each.infra for each in sums),
    )


def _flakiness(sums: WindowSums, mixed: int) -> tuple[int, bool, int, int, int]:
    """The order of rows. A test that never passed in the window is broken, and no flake."""
    return -mixed, not sums.passed, -sums.failed, -sums.infra, sums.test


def _grid(connection: sa.Connection, window: HistoryWindow) -> _Grid:
    """The finest columns of which at most 100 hold all jobs of the window."""
    query = sa.select(sa.func.min(JOB.c.started_ms), sa.func.max(JOB.c.started_ms)).where(
        JOB.c.started_ms.between(window.since_ms, window.until_ms)
    )
    first, last = connection.execute(query).one()
    if first is None:
        first = last = window.since_ms
    for hours in _HOURS:
        width_ms = hours * HOUR_MS
        # Whole columns of UTC: the same job lies in the same column tomorrow.
        begin_ms = first // width_ms * width_ms
        count = (last - begin_ms) // width_ms + 1
        if count <= _MOST_COLUMNS:
            return _Grid(begin_ms=begin_ms, width_ms=width_ms, count=count)
    width_ms = ceil((last - first + 1) / _MOST_COLUMNS)
    return _Grid(begin_ms=first, width_ms=width_ms, count=_MOST_COLUMNS)


def _cells(
    connection: sa.Connection,
    window: HistoryWindow,
    branch: int,
    grid: _Grid,
    tests: Sequence[int],
) -> Mapping[int, str]:
    place = (
        (ATTEMPT.c.started_ms - grid.begin_ms)
        .op("/", precedence=_DIVISION)(grid.width_ms)
        .label("place")
    )
    counts = [
        sa.func.count(sa.case((ATTEMPT.c.outcome.in_(outcomes), 1)))
        for outcomes in ((0,), (1, 2), (4,))
    ]
    query = sa.select(ATTEMPT.c.test_id, place, *counts).where(
        ATTEMPT.c.test_id.in_(tests),
        ATTEMPT.c.started_ms.between(max(grid.begin_ms, window.since_ms), window.until_ms),
    )
    if branch != ALL_BRANCHES:
        query = query.join(JOB, JOB.c.id == ATTEMPT.c.job_id).where(JOB.c.branch_id == branch)
    rows = {test: [_EMPTY] * grid.count for test in tests}
    grouped = query.group_by(ATTEMPT.c.test_id, sa.text("place"))
    for test, at, passed, failed, infra in connection.execute(grouped):
        if 0 <= at < grid.count:
            rows[test][at] = _cell(passed, failed, infra)
    return {test: "".join(cells) for test, cells in rows.items()}


def _cell(passed: int, failed: int, infra: int) -> str:
    if failed:
        return str(min(9, ceil(10 * failed / (passed + failed))))
    if infra:
        return "i"
    return "0" if passed else _EMPTY


def _row(sums: WindowSums, name: tuple[str, str], mixed: Counter[int], cells: str) -> StripRow:
    return StripRow(
        suite=name[0],
        name=name[1],
        passed=sums.passed,
        failed=sums.failed,
        failure_rate=rate_facts(sums.failed, sums.passed + sums.failed),
        mixed_commits=mixed[sums.test],
        cells=cells,
    )


def _infra_places(columns: Iterable[FailureColumn], grid: _Grid) -> tuple[int, ...]:
    places = {grid.place(each.hour * HOUR_MS) for each in columns if each.is_infra}
    return tuple(sorted(place for place in places if 0 <= place < grid.count))
