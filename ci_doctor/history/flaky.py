# SPDX-License-Identifier: Apache-2.0
"""Reads a database: which tests are flaky, from the sums that each write keeps."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.history.branches import branch_number
from ci_doctor.history.infra_columns import column_facts, columns_of, failures_in
from ci_doctor.history.rates import rate_facts
from ci_doctor.history.reading.moments import utc_text
from ci_doctor.history.schema import ATTEMPT, JOB, TEST, TEST_COMMIT, TEST_DAY
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
    """Every test that passed and failed on one commit, or changed its result three times.

    Failures in columns of infrastructure do not count. Raises UsageError for an unknown branch.
    """
    branch = branch_number(connection, window.branch)
    columns = columns_of(connection, window)
    in_columns = failures_in(connection, columns)
    sums = sums_of(connection, window, branch)
    outside = Counter[int]()
    for (test, _), count in in_columns.items():
        outside[test] += count
    mixed = mixed_commits(connection, window, branch, in_columns)
    candidates = [_without(each, outside[each.test]) for each in sums]
    candidates = [each for each in candidates if each.failed and each.passed]
    candidates.sort(key=lambda each: (-mixed[each.test], -each.failed, each.test))
    chosen = candidates[:_MOST_CANDIDATES]
    orders = _orders(connection, window, branch, [each.test for each in chosen])
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
    connection: sa.Connection, window: HistoryWindow, branch: int | None
) -> list[WindowSums]:
    """The sums of each test that ran."""
    columns = [TEST_DAY.c.passed, TEST_DAY.c.failed, TEST_DAY.c.infra]
    query = sa.select(TEST_DAY.c.test_id, *(sa.func.sum(column) for column in columns)).where(
        TEST_DAY.c.day.between(window.first_day, window.last_day)
    )
    if branch is not None:
        query = query.where(TEST_DAY.c.branch_id == branch)
    rows = connection.execute(query.group_by(TEST_DAY.c.test_id))
    return [
        WindowSums(test=test, passed=int(passed), failed=int(failed), infra=int(infra))
        for test, passed, failed, infra in rows
    ]


def mixed_commits(
    connection: sa.Connection,
    window: HistoryWindow,
    branch: int | None,
    in_columns: Mapping[tuple[int, int | None], int],
) -> Counter[int]:
    """On how many commits each test passed and failed, failures in columns apart."""
    # The condition of the index, word by word: only then it is used.
    query = sa.select(TEST_COMMIT.c.test_id, TEST_COMMIT.c.commit_id, TEST_COMMIT.c.failed).where(
        sa.text("test_commit.passed > 0 AND test_commit.failed > 0"),
        TEST_COMMIT.c.last_ms >= window.since_ms,
    )
    if branch is not None:
        of_branch = sa.select(JOB.c.commit_id).where(JOB.c.branch_id == branch)
        query = query.where(TEST_COMMIT.c.commit_id.in_(of_branch))
    counts: Counter[int] = Counter()
    for test, commit, failed in connection.execute(query):
        if failed > in_columns.get((test, commit), 0):
            counts[test] += 1
    return counts


def names_of(connection: sa.Connection, tests: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Suite and name of each test."""
    names: dict[int, tuple[str, str]] = {}
    for start in range(0, len(tests), _CHUNK):
        chunk = tests[start : start + _CHUNK]
        query = sa.select(TEST.c.id, TEST.c.suite, TEST.c.name).where(TEST.c.id.in_(chunk))
        for number, suite, name in connection.execute(query):
            names[number] = (suite, name)
    return names


def _without(sums: WindowSums, outside: int) -> WindowSums:
    """`sums` with `outside` failures counted as infrastructure."""
    moved = min(outside, sums.failed)
    return WindowSums(
        test=sums.test,
        passed=sums.passed,
        failed=sums.failed - moved,
        infra=sums.infra + moved,
    )


def _orders(
    connection: sa.Connection, window: HistoryWindow, branch: int | None, tests: Sequence[int]
) -> dict[int, _Order]:
    query = (
        sa.select(ATTEMPT.c.test_id, ATTEMPT.c.started_ms, ATTEMPT.c.outcome)
        .where(
            ATTEMPT.c.test_id.in_(tests),
            ATTEMPT.c.started_ms.between(window.since_ms, window.until_ms),
            ATTEMPT.c.outcome.in_((0, 1, 2)),
        )
        .order_by(ATTEMPT.c.test_id, ATTEMPT.c.started_ms, ATTEMPT.c.source_id, ATTEMPT.c.number)
    )
    if branch is not None:
        query = query.join(JOB, JOB.c.id == ATTEMPT.c.job_id).where(JOB.c.branch_id == branch)
    orders = {test: _Order(transitions=0, last_failed_ms=None) for test in tests}
    for test, outcomes in _by_test(connection.execute(query)):
        orders[test] = _order(outcomes)
    return orders


def _by_test(
    rows: Iterable[Sequence[Any]],
) -> Iterator[tuple[int, list[tuple[int, bool]]]]:
    current: int | None = None
    outcomes: list[tuple[int, bool]] = []
    for test, started, outcome in rows:
        if test != current and current is not None:
            yield current, outcomes
            outcomes = []
        current = test
        outcomes.append((started, outcome == 0))
    if current is not None:
        yield current, outcomes


def _order(outcomes: Sequence[tuple[int, bool]]) -> _Order:
    transitions = 0
    last_failed: int | None = None
    before: bool | None = None
    for started, passed in outcomes:
        if before is not None and passed is not before:
            transitions += 1
        before = passed
        if not passed:
            last_failed = started
    return _Order(transitions=transitions, last_failed_ms=last_failed)


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
