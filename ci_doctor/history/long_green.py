# SPDX-License-Identifier: Apache-2.0
"""Reads a database: whether tests have been green for long."""

from collections.abc import Collection
from typing import Final

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.history.schema import ALL_BRANCHES, TEST, TEST_DAY
from ci_doctor.history.statistics.wilson import wilson
from ci_doctor.history.window import HistoryWindow
from ci_doctor.render.formatting import percent

WINDOW_DAYS: Final = 90
_FEWEST_DAYS: Final = 14
# 0 failures in 73 runs have a bound of 5.0 %; with fewer runs too little is known.
_HIGHEST_RATE: Final = 0.05


class DaySums(Struct, frozen=True, kw_only=True):
    """The attempts of some tests together. first_day, last_day: with an attempt, in days since 1970."""

    passed: int
    failed: int
    first_day: int
    last_day: int


def day_sums(
    connection: sa.Connection, tests: Collection[tuple[str, str]], window: HistoryWindow
) -> DaySums | None:
    """The sums of `tests` in the window, on all branches; None without an attempt."""
    passed = failed = 0
    days: list[int] = []
    for suite, name in sorted(set(tests)):
        query = (
            sa.select(TEST_DAY.c.passed, TEST_DAY.c.failed, TEST_DAY.c.day)
            .join(TEST, TEST.c.id == TEST_DAY.c.test_id)
            .where(TEST.c.suite == suite, TEST.c.name == name)
            .where(TEST_DAY.c.branch_id == ALL_BRANCHES)
            .where(TEST_DAY.c.day.between(window.first_day, window.last_day))
        )
        for row in connection.execute(query):
            if row.passed or row.failed:
                passed += row.passed
                failed += row.failed
                days.append(row.day)
    if not days:
        return None
    return DaySums(passed=passed, failed=failed, first_day=min(days), last_day=max(days))


def green_clause(sums: DaySums | None) -> str | None:
    """`0 of 80 attempts failed in 20 days`; None if they are not green for long. Pure.

    They ran for 14 days, and fail in less than 5 % by the upper end of Wilson's interval.
    """
    if sums is None or sums.last_day - sums.first_day < _FEWEST_DAYS:
        return None
    attempts = sums.passed + sums.failed
    high = wilson(sums.failed, attempts).high
    if high >= _HIGHEST_RATE:
        return None
    days = sums.last_day - sums.first_day
    return (
        f"{sums.failed} of {attempts:,} attempts failed in {days} days, so it fails in less than "
        f"{percent(_HIGHEST_RATE)} (95 %)"
    )
