# SPDX-License-Identifier: Apache-2.0
"""Reads a database: passes and failures by day or by week."""

from typing import Final

import sqlalchemy as sa

from ci_doctor.history.branches import branch_number
from ci_doctor.history.rates import rate_facts
from ci_doctor.history.reading.moments import utc_text
from ci_doctor.history.schema import DAY_MS, TEST_DAY
from ci_doctor.history.window import HistoryWindow
from ci_doctor.model.facts.history import PeriodFacts, TrendFacts

# The first of January 1970 was a Thursday: three days after a Monday.
_MONDAY: Final = 3
_DIVISION: Final = 8  # above that of a sum, which gets its brackets then


def trend_facts(connection: sa.Connection, window: HistoryWindow, *, days: int) -> TrendFacts:
    """The window in periods of `days` days; weeks begin on Monday. Raises UsageError for a branch."""
    branch = branch_number(connection, window.branch)
    shift = _MONDAY if days == 7 else 0
    # Both databases divide integers downwards here; SQLAlchemy's own `/` would make fractions.
    period = (TEST_DAY.c.day + shift).op("/", precedence=_DIVISION)(days)
    per_test = (
        sa.select(
            period.label("period"),
            TEST_DAY.c.test_id,
            sa.func.sum(TEST_DAY.c.passed).label("passed"),
            sa.func.sum(TEST_DAY.c.failed).label("failed"),
            sa.func.sum(TEST_DAY.c.infra).label("infra"),
            sa.func.sum(TEST_DAY.c.duration_ms).label("duration_ms"),
        )
        .where(
            TEST_DAY.c.branch_id == branch,
            TEST_DAY.c.day.between(window.first_day, window.last_day),
        )
        .group_by(sa.text("period"), TEST_DAY.c.test_id)
    )
    tests = per_test.subquery()
    query = sa.select(
        tests.c.period,
        sa.func.sum(tests.c.passed),
        sa.func.sum(tests.c.failed),
        sa.func.sum(tests.c.infra),
        sa.func.sum(tests.c.duration_ms),
        sa.func.count(),
        sa.func.count(sa.case((tests.c.failed > 0, 1))),
    )
    rows = connection.execute(query.group_by(tests.c.period).order_by(tests.c.period))
    periods = [_period(tuple(map(int, row)), days, shift) for row in rows]
    return TrendFacts(branch=window.branch, periods=tuple(periods))


def _period(row: tuple[int, ...], days: int, shift: int) -> PeriodFacts:
    number, passed, failed, infra, duration_ms, tests, failing = row
    return PeriodFacts(
        begins=utc_text((number * days - shift) * DAY_MS)[:10],
        passed=passed,
        failed=failed,
        infra=infra,
        tests=tests,
        failing_tests=failing,
        failure_rate=rate_facts(failed, passed + failed),
        duration_s=duration_ms / 1000,
    )
