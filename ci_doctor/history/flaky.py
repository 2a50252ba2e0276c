# SPDX-License-Identifier: Apache-2.0
"""Reads a database: which tests are flaky, what failed with them, and how often a cause was seen."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Final

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.history.database import (
    ALL_BRANCHES,
    ATTEMPT,
    CAUSE,
    JOB,
    TEST,
    TEST_COMMIT,
    TEST_DAY,
    Question,
    chunks,
)
from ci_doctor.history.evidence import utc_text
from ci_doctor.history.statistics import (
    HOUR_MS,
    FailureColumn,
    JobResult,
    failure_columns,
    wilson,
)
from ci_doctor.model.facts.history import (
    FlakyFacts,
    FlakyTestFacts,
    HistoryReportFacts,
    StripRow,
)
from ci_doctor.render.formatting import amount

# --- the columns of failures in a window, and what failed in them ---

# The condition of the index on failures, word by word: only then it is used. 4 is out again.
_FAILED = sa.and_(sa.text("attempt.outcome IN (1, 2, 4)"), ATTEMPT.c.outcome != 4)
# How often each test failed in columns, by test, commit, step and branch.
ColumnFailures = Counter[tuple[int, int | None, str, int | None]]


def columns_of(asked: Question) -> tuple[FailureColumn, ...]:
    """All of the window, whatever its branch: a broken machine breaks every branch."""
    query = asked.jobs(
        JOB.c.id, JOB.c.agent, JOB.c.commit_id, JOB.c.started_ms, JOB.c.passed, JOB.c.failed
    ).where(JOB.c.agent.is_not(None))
    columns = failure_columns(JobResult(*row) for row in asked.connection.execute(query))
    blamed = _blamed_on_the_change(asked.connection, infra_jobs(columns))
    return tuple(
        each
        if blamed.isdisjoint(each.jobs)
        else replace(each, facts=replace(each.facts, is_infra=False))
        for each in columns
    )


def infra_jobs(columns: Iterable[FailureColumn]) -> list[int]:
    """The numbers of the jobs in columns of infrastructure."""
    return [job for column in columns if column.facts.is_infra for job in column.jobs]


def failures_in(connection: sa.Connection, columns: Iterable[FailureColumn]) -> ColumnFailures:
    """How often each test failed in the columns of infrastructure."""
    counts: ColumnFailures = Counter()
    step = sa.func.coalesce(JOB.c.step, sa.literal_column("''"))
    place = (ATTEMPT.c.test_id, JOB.c.commit_id, step, JOB.c.branch_id)
    for chunk in chunks(infra_jobs(columns)):
        query = (
            sa.select(*place, sa.func.count())
            .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
            .where(ATTEMPT.c.job_id.in_(chunk), _FAILED)
            .group_by(*place)
        )
        for test, commit, step_name, branch, count in connection.execute(query):
            counts[test, commit, step_name, branch] += count
    return counts


def _blamed_on_the_change(connection: sa.Connection, jobs: list[int]) -> set[int]:
    """Those of `jobs` of whose failed tests less than half passed anywhere on the same commit.

    Other tests of the commit that pass elsewhere are no witness: a change may break one step.
    """
    blamed = set()
    is_of_commit = sa.and_(
        TEST_COMMIT.c.commit_id == JOB.c.commit_id, TEST_COMMIT.c.test_id == ATTEMPT.c.test_id
    )
    test = ATTEMPT.c.test_id
    passed = sa.case((TEST_COMMIT.c.passed > 0, test))
    for chunk in chunks(jobs):
        query = (
            sa.select(ATTEMPT.c.job_id, _different(test), _different(passed))
            .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
            .outerjoin(TEST_COMMIT, is_of_commit)
            .where(ATTEMPT.c.job_id.in_(chunk), _FAILED)
            .group_by(ATTEMPT.c.job_id)
        )
        blamed |= {job for job, tests, good in connection.execute(query) if 2 * good < tests}
    return blamed


def _different(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return sa.func.count(sa.distinct(column))


# --- which tests are flaky, from the sums that each write keeps ---

# Transitions need every attempt of a test: of so many tests they are counted.
_MOST_CANDIDATES: Final = 100
# One change and its repair make two.
_FEWEST_TRANSITIONS: Final = 3


class WindowSums(Struct, frozen=True, kw_only=True):
    """The sums of one test in a window."""

    test: int
    passed: int
    failed: int
    infra: int


def flaky_facts(asked: Question) -> FlakyFacts:
    """Every test that passed and failed in one step of a commit, or changed its result three times.

    Failures in columns of infrastructure do not count.
    """
    columns = columns_of(asked)
    in_columns = failures_in(asked.connection, columns)
    sums = sums_of(asked, in_columns)
    mixed = mixed_commits(asked, in_columns)
    candidates = [each for each in sums if each.failed and each.passed]
    candidates.sort(key=lambda each: (-mixed[each.test], -each.failed, each.test))
    chosen = candidates[:_MOST_CANDIDATES]
    orders = _orders(asked, [each.test for each in chosen], infra_jobs(columns))
    names = names_of(asked.connection, [each.test for each in chosen])
    flaky = []
    for each in chosen:
        transitions, last = orders.get(each.test, (0, None))
        facts = FlakyTestFacts(
            suite=names[each.test][0],
            name=names[each.test][1],
            passed=each.passed,
            failed=each.failed,
            infra=each.infra,
            failure_rate=wilson(each.failed, each.passed + each.failed),
            mixed_commits=mixed[each.test],
            transitions=transitions,
            is_proven=mixed[each.test] > 0,
            last_failed_at=None if last is None else utc_text(last),
        )
        if facts.is_proven or transitions >= _FEWEST_TRANSITIONS:
            flaky.append(facts)
    return FlakyFacts(
        since=utc_text(asked.window.since_ms),
        branch=asked.window.branch,
        tests=len(sums),
        attempts=sum(each.passed + each.failed + each.infra for each in sums),
        flaky=tuple(sorted(flaky, key=_urgency)),
        columns=tuple(each.facts for each in columns),
    )


def sums_of(asked: Question, in_columns: ColumnFailures) -> list[WindowSums]:
    """The sums of each test that ran; failures in columns count as infrastructure."""
    outside: Counter[int] = Counter()
    for (test, _, _, of), count in in_columns.items():
        if asked.branch in (ALL_BRANCHES, of):
            outside[test] += count
    columns = [TEST_DAY.c.passed, TEST_DAY.c.failed, TEST_DAY.c.infra]
    query = sa.select(TEST_DAY.c.test_id, *(sa.func.sum(column) for column in columns)).where(
        TEST_DAY.c.branch_id == asked.branch,
        TEST_DAY.c.day.between(asked.window.first_day, asked.window.last_day),
    )
    sums = []
    for test, passed, failed, infra in asked.connection.execute(query.group_by(TEST_DAY.c.test_id)):
        moved = min(outside[test], int(failed))
        sums.append(
            WindowSums(
                test=test, passed=int(passed), failed=int(failed) - moved, infra=int(infra) + moved
            )
        )
    return sums


def mixed_commits(asked: Question, in_columns: ColumnFailures) -> Counter[int]:
    """On how many commits each test passed and failed in one step, failures in columns apart.

    A test that fails in one step of a matrix and passes in another need not be flaky.
    """
    # The condition of the index, word by word: only then it is used.
    query = sa.select(
        TEST_COMMIT.c.test_id, TEST_COMMIT.c.commit_id, TEST_COMMIT.c.step, TEST_COMMIT.c.failed
    ).where(
        sa.text("test_commit.passed > 0 AND test_commit.failed > 0"),
        TEST_COMMIT.c.last_ms >= asked.window.since_ms,
    )
    if asked.branch != ALL_BRANCHES:
        of_branch = sa.select(JOB.c.commit_id).where(JOB.c.branch_id == asked.branch)
        query = query.where(TEST_COMMIT.c.commit_id.in_(of_branch))
    # The sums of a commit are those of all its branches.
    outside: Counter[tuple[int, int | None, str]] = Counter()
    for (test, commit, step, _), count in in_columns.items():
        outside[test, commit, step] += count
    mixed = {
        (test, commit)
        for test, commit, step, failed in asked.connection.execute(query)
        if failed > outside[test, commit, step]
    }
    return Counter(test for test, _ in mixed)


def names_of(connection: sa.Connection, tests: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Suite and name of each test."""
    names: dict[int, tuple[str, str]] = {}
    for chunk in chunks(tests):
        query = sa.select(TEST.c.id, TEST.c.suite, TEST.c.name).where(TEST.c.id.in_(chunk))
        for number, suite, name in connection.execute(query):
            names[number] = (suite, name)
    return names


def _orders(
    asked: Question, tests: Sequence[int], outside: Sequence[int]
) -> dict[int, tuple[int, int | None]]:
    """How often each test changed its result within its steps, and when it failed last.

    Without its failures in the jobs `outside`. A test that always fails in one step and passes in the next one
    does not change its result.
    """
    passed = (ATTEMPT.c.outcome == 0).label("passed")
    before = sa.func.lag(ATTEMPT.c.outcome == 0).over(
        partition_by=(ATTEMPT.c.test_id, JOB.c.step),
        order_by=(ATTEMPT.c.started_ms, ATTEMPT.c.source_id, ATTEMPT.c.number),
    )
    query = asked.attempts(ATTEMPT.c.test_id, ATTEMPT.c.started_ms, passed, before.label("before"))
    query = query.join(JOB, JOB.c.id == ATTEMPT.c.job_id).where(
        ATTEMPT.c.test_id.in_(tests), ATTEMPT.c.outcome.in_((0, 1, 2))
    )
    if outside:
        # As numbers in the text: there may be more than a statement has parameters.
        jobs: sa.BindParameter[Any] = sa.bindparam(
            "jobs", list(outside), expanding=True, literal_execute=True
        )
        query = query.where(sa.or_(ATTEMPT.c.outcome == 0, ATTEMPT.c.job_id.not_in(jobs)))
    each = query.subquery()
    changed = sa.func.count(sa.case((each.c.passed != each.c.before, 1)))
    last_failed = sa.func.max(sa.case((sa.not_(each.c.passed), each.c.started_ms)))
    rows = asked.connection.execute(
        sa.select(each.c.test_id, changed, last_failed).group_by(each.c.test_id)
    )
    return {test: (transitions, last) for test, transitions, last in rows}


def _urgency(test: FlakyTestFacts) -> tuple[bool, float, str, str]:
    return (not test.is_proven, -test.failure_rate.low, test.suite, test.name)


# --- tests against time, for the page of the history ---

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


def strip_facts(asked: Question) -> HistoryReportFacts:
    """The tests that failed in the window, the likeliest flaky ones first, 200 at most."""
    columns = columns_of(asked)
    in_columns = failures_in(asked.connection, columns)
    mixed = mixed_commits(asked, in_columns)
    sums = sums_of(asked, in_columns)
    failing = [each for each in sums if each.failed or each.infra]
    failing.sort(key=lambda each: _flakiness(each, mixed[each.test]))
    chosen = failing[:_MOST_ROWS]
    grid = _grid(asked)
    cells = _cells(asked, grid, [each.test for each in chosen])
    names = names_of(asked.connection, [each.test for each in chosen])
    places = {grid.place(each.hour * HOUR_MS) for each in columns if each.facts.is_infra}
    return HistoryReportFacts(
        since=utc_text(asked.window.since_ms),
        until=utc_text(asked.window.until_ms),
        branch=asked.window.branch,
        column_s=grid.width_ms / 1000,
        history_strip=tuple(
            StripRow(
                suite=names[each.test][0],
                name=names[each.test][1],
                passed=each.passed,
                failed=each.failed,
                failure_rate=wilson(each.failed, each.passed + each.failed),
                mixed_commits=mixed[each.test],
                cells=cells[each.test],
            )
            for each in chosen
        ),
        begins=tuple(utc_text(grid.begin_ms + at * grid.width_ms) for at in range(grid.count)),
        infra=tuple(sorted(place for place in places if 0 <= place < grid.count)),
        columns=tuple(each.facts for each in columns),
        failing_tests=len(failing),
        outside_tests=sum(not each.failed for each in failing),
        tests=len(sums),
        attempts=sum(each.passed + each.failed + each.infra for each in sums),
    )


def _flakiness(sums: WindowSums, mixed: int) -> tuple[int, bool, int, int, int]:
    """The order of rows. A test that never passed in the window is broken, and no flake."""
    return -mixed, not sums.passed, -sums.failed, -sums.infra, sums.test


def _grid(asked: Question) -> _Grid:
    """The finest columns of which at most 100 hold all jobs of the window."""
    query = asked.jobs(sa.func.min(JOB.c.started_ms), sa.func.max(JOB.c.started_ms))
    first, last = asked.connection.execute(query).one()
    if first is None:
        first = last = asked.window.since_ms
    for hours in _HOURS:
        width_ms = hours * HOUR_MS
        # Whole columns of UTC: the same job lies in the same column tomorrow.
        begin_ms = first // width_ms * width_ms
        count = (last - begin_ms) // width_ms + 1
        if count <= _MOST_COLUMNS:
            return _Grid(begin_ms=begin_ms, width_ms=width_ms, count=count)
    width_ms = ceil((last - first + 1) / _MOST_COLUMNS)
    return _Grid(begin_ms=first, width_ms=width_ms, count=_MOST_COLUMNS)


def _cells(asked: Question, grid: _Grid, tests: Sequence[int]) -> Mapping[int, str]:
    place = (
        (ATTEMPT.c.started_ms - grid.begin_ms)
        .op("/", precedence=_DIVISION)(grid.width_ms)
        .label("place")
    )
    counts = [
        sa.func.count(sa.case((ATTEMPT.c.outcome.in_(outcomes), 1)))
        for outcomes in ((0,), (1, 2), (4,))
    ]
    query = asked.attempts(ATTEMPT.c.test_id, place, *counts).where(
        ATTEMPT.c.test_id.in_(tests), ATTEMPT.c.started_ms >= grid.begin_ms
    )
    rows = {test: [_EMPTY] * grid.count for test in tests}
    grouped = query.group_by(ATTEMPT.c.test_id, sa.text("place"))
    for test, at, passed, failed, infra in asked.connection.execute(grouped):
        if 0 <= at < grid.count:
            rows[test][at] = _cell(passed, failed, infra)
    return {test: "".join(cells) for test, cells in rows.items()}


def _cell(passed: int, failed: int, infra: int) -> str:
    if failed:
        return str(min(9, ceil(10 * failed / (passed + failed))))
    if infra:
        return "i"
    return "0" if passed else _EMPTY


# --- how often a cause was seen, since when, and where last ---


def seen_phrase(connection: sa.Connection, fingerprint: str) -> str:
    """Of the jobs with the cause of this fingerprint: `seen 14 times since 2026-11-03, last on agent gpu-7`."""
    each = (
        sa.select(JOB)
        .join(CAUSE, CAUSE.c.id == JOB.c.cause_id)
        .where(CAUSE.c.fingerprint == fingerprint)
        .subquery()
    )
    times, first = connection.execute(
        sa.select(sa.func.count(), sa.func.min(each.c.started_ms)).select_from(each)
    ).one()
    if first is None:
        return "not seen before in this history"
    phrase = f"seen {amount(times, 'time')} since {utc_text(first)[:10]}"
    agent = connection.scalar(sa.select(each.c.agent).order_by(each.c.started_ms.desc()).limit(1))
    return phrase if agent is None else f"{phrase}, last on agent {agent}"
