# SPDX-License-Identifier: Apache-2.0
"""Reads a database: which tests are flaky, from the sums that each write keeps."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.history.branches import branch_number
from ci_doctor.history.infra_columns import (
    ColumnFailures,
    column_facts,
    columns_of,
    failures_in,
    infra_jobs,
)
from ci_doctor.history.rates import rate_facts
from ci_doctor.history.reading.moments import utc_text
from ci_doctor.history.schema import ALL_BRANCHES, ATTEMPT, JOB, TEST, TEST_COMMIT, TEST_DAY
from ci_doctor.history.window import HistoryWindow
from ci_doctor.model.facts.history import FlakyFacts, FlakyTestFacts

# Transitions need every attempt of a test: of so many tests they are counted.
_MOST_CANDIDATES: Final = 100
# One change and its repair make two.
_FEWEST_TRANSITIONS: Final = 3
_CHUNK: Final = 5_000


class WindowSums(Struct, frozen=True, kw_only=True):
    """The sums of one test in a window."""

    test: int
    passed: int
    failed: int
    infra: int


class _Order(Struct, frozen=True, kw_only=True):
    """What the order of a test's attempts tells."""

    transitions: int
    last_failed_ms: int | None


def flaky_facts(connection: sa.Connection, window: HistoryWindow) -> FlakyFacts:
    """Every test that passed and failed in one step of a commit, or changed its result three times.

    Failures in columns of infrastructure do not count. Raises UsageError for an unknown branch.
    """
    branch = branch_number(connection, window.branch)
    columns = columns_of(connection, window)
    in_columns = failures_in(connection, columns)
    sums = sums_of(connection, window, branch, in_columns)
    mixed = mixed_commits(connection, window, branch, in_columns)
    candidates = [each for each in sums if each.failed and each.passed]
    candidates.sort(key=lambda each: (-mixed[each.test], -each.failed, each.test))
    chosen = candidates[:_MOST_CANDIDATES]
    numbers = [each.test for each in chosen]
    orders = _orders(connection, window, branch, numbers, infra_jobs(columns))
    names = names_of(connection, [each.test for each in chosen])
    flaky = [_facts(each, names[each.test], mixed[each.test], orders[each.test]) for each in chosen]
    return FlakyFacts(
        since=utc_text(window.since_ms),
        branch=window.branch,
        tests=len(sums),
        attempts=sum(each.passed + each.failed + each.infra for each in sums),
        flaky=tuple(sorted((each for each in flaky if _is_flaky(each)), key=_urgency)),
        columns=column_facts(columns),
    )


def sums_of(
    connection: sa.Connection,
    window: HistoryWindow,
    branch: int,
    in_columns: ColumnFailures,
) -> list[WindowSums]:
    """The sums of each test that ran; failures in columns count as infrastructure."""
    outside: Counter[int] = Counter()
    for (test, _, _, of), count in in_columns.items():
        if branch in (ALL_BRANCHES, of):
            outside[test] += count
    columns = [TEST_DAY.c.passed, TEST_DAY.c.failed, TEST_DAY.c.infra]
    query = sa.select(TEST_DAY.c.test_id, *(sa.func.sum(column) for column in columns)).where(
        TEST_DAY.c.branch_id == branch,
        TEST_DAY.c.day.between(window.first_day, window.last_day),
    )
    rows = connection.execute(query.group_by(TEST_DAY.c.test_id))
    return [
        _sums((test, int(passed), int(failed), int(infra)), outside[test])
        for test, passed, failed, infra in rows
    ]


def mixed_commits(
    connection: sa.Connection,
    window: HistoryWindow,
    branch: int,
    in_columns: ColumnFailures,
) -> Counter[int]:
    """On how many commits each test passed and failed in one step, failures in columns apart.

    A test that fails in one step of a matrix and passes in another need not be flaky.
    """
    # The condition of the index, word by word: only then it is used.
    query = sa.select(
        TEST_COMMIT.c.test_id, TEST_COMMIT.c.commit_id, TEST_COMMIT.c.step, TEST_COMMIT.c.failed
    ).where(
        sa.text("test_commit.passed > 0 AND test_commit.failed > 0"),
        TEST_COMMIT.c.last_ms >= window.since_ms,
    )
    if branch != ALL_BRANCHES:
        of_branch = sa.select(JOB.c.commit_id).where(JOB.c.branch_id == branch)
        query = query.where(TEST_COMMIT.c.commit_id.in_(of_branch))
    # The sums of a commit are those of all its branches.
    outside: Counter[tuple[int, int | None, str]] = Counter()
    for (test, commit, step, _), count in in_columns.items():
        outside[test, commit, step] += count
    mixed = {
        (test, commit)
        for test, commit, step, failed in connection.execute(query)
        if failed > outside[test, commit, step]
    }
    return Counter(test for test, _ in mixed)


def names_of(connection: sa.Connection, tests: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Suite and name of each test."""
    names: dict[int, tuple[str, str]] = {}
    for start in range(0, len(tests), _CHUNK):
        chunk = tests[start : start + _CHUNK]
        query = sa.select(TEST.c.id, TEST.c.suite, TEST.c.name).where(TEST.c.id.in_(chunk))
        for number, suite, name in connection.execute(query):
            names[number] = (suite, name)
    return names


def _sums(row: tuple[int, int, int, int], outside: int) -> WindowSums:
    test, passed, failed, infra = row
    moved = min(outside, failed)
    return WindowSums(test=test, passed=passed, failed=failed - moved, infra=infra + moved)


def _orders(
    connection: sa.Connection,
    window: HistoryWindow,
    branch: int,
    tests: Sequence[int],
    outside: Sequence[int],
) -> dict[int, _Order]:
    """The order of each test in each of its steps, without its failures in the jobs `outside`.

    A test that always fails in one step and passes in the next one does not change its result.
    """
    passed = (ATTEMPT.c.outcome == 0).label("passed")
    before = sa.func.lag(ATTEMPT.c.outcome == 0).over(
        partition_by=(ATTEMPT.c.test_id, JOB.c.step),
        order_by=(ATTEMPT.c.started_ms, ATTEMPT.c.source_id, ATTEMPT.c.number),
    )
    query = (
        sa.select(ATTEMPT.c.test_id, ATTEMPT.c.started_ms, passed, before.label("before"))
        .select_from(ATTEMPT)
        .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
        .where(
            ATTEMPT.c.test_id.in_(tests),
            ATTEMPT.c.started_ms.between(window.since_ms, window.until_ms),
            ATTEMPT.c.outcome.in_((0, 1, 2)),
        )
    )
    if outside:
        # As numbers in the text: there may be more than a statement has parameters.
        jobs: sa.BindParameter[Any] = sa.bindparam(
            "jobs", list(outside), expanding=True, literal_execute=True
        )
        query = query.where(sa.or_(ATTEMPT.c.outcome == 0, ATTEMPT.c.job_id.not_in(jobs)))
    if branch != ALL_BRANCHES:
        query = query.where(JOB.c.branch_id == branch)
    each = query.subquery()
    changed = sa.func.count(sa.case((each.c.passed != each.c.before, 1)))
    last_failed = sa.func.max(sa.case((sa.not_(each.c.passed), each.c.started_ms)))
    rows = connection.execute(
        sa.select(each.c.test_id, changed, last_failed).group_by(each.c.test_id)
    )
    orders = {test: _Order(transitions=0, last_failed_ms=None) for test in tests}
    for test, transitions, last in rows:
        orders[test] = _Order(transitions=transitions, last_failed_ms=last)
    return orders


def _facts(sums: WindowSums, name: tuple[str, str], mixed: int, order: _Order) -> FlakyTestFacts:
    last = order.last_failed_ms
    return FlakyTestFacts(
        suite=name[0],
        name=name[1],
        passed=sums.passed,
        failed=sums.failed,
        infra=sums.infra,
        failure_rate=rate_facts(sums.failed, sums.passed + sums.failed),
        mixed_commits=mixed,
        transitions=order.transitions,
        is_proven=mixed > 0,
        last_failed_at=None if last is None else utc_text(last),
    )


def _is_flaky(test: FlakyTestFacts) -> bool:
    return test.is_proven or test.transitions >= _FEWEST_TRANSITIONS


def _urgency(test: FlakyTestFacts) -> tuple[bool, float, str, str]:
    return (not test.is_proven, -test.failure_rate.low, test.suite, test.name)
