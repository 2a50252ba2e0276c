# SPDX-License-Identifier: Apache-2.0
"""Reads a database: the attempts of one test, and when it began to fail."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.history.database import (
    ALL_BRANCHES,
    ATTEMPT,
    BRANCH,
    CAUSE,
    COMMITS,
    JOB,
    TEST,
    HistoryWindow,
)
from ci_doctor.history.evidence import AttemptOutcome, stored_text, utc_text
from ci_doctor.history.flaky import columns_of, infra_jobs
from ci_doctor.history.statistics import ChangePoint, RunCounts, change_point, rate_facts
from ci_doctor.model.facts.history import (
    AgentRateFacts,
    BeganFacts,
    CommitRunFacts,
    HistoryAttemptFacts,
    OneTestFacts,
    RateFacts,
)
from ci_doctor.model.outcome import junit_identity

# --- the test that a person names ---

_MOST_SHOWN = 5


class NamedTest(Struct, frozen=True, kw_only=True):
    """A test of the history."""

    number: int
    suite: str
    name: str


def named_test(connection: sa.Connection, text: str) -> NamedTest:
    """The test called `text`.

    That is `suite::name`, a pytest node id, a name, or a part of either that only one test has.
    Raises UsageError if there is none, or several.
    """
    # As they are stored: a very long name is cut there.
    suite, name = map(stored_text, junit_identity(text))
    parent, last = map(stored_text, text.rpartition("::")[::2])
    exact = sa.or_(
        sa.and_(TEST.c.suite == suite, TEST.c.name == name),
        sa.and_(TEST.c.suite == parent, TEST.c.name == last),
        TEST.c.name == stored_text(text),
    )
    tests = _tests(connection, exact)
    if not tests:
        whole = TEST.c.suite + "::" + TEST.c.name
        tests = _tests(connection, whole.contains(text, autoescape=True))
    if len(tests) == 1:
        return tests[0]
    if not tests:
        raise UsageError(
            f"no test of the history is called `{text}`",
            hint="`ci-doctor history flaky` lists names",
        )
    shown = ", ".join(f"`{test.suite}::{test.name}`" for test in tests[:_MOST_SHOWN])
    raise UsageError(f"`{text}` may be one of several tests", hint=f"name one of them: {shown}")


def _tests(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> list[NamedTest]:
    query = sa.select(TEST.c.id, TEST.c.suite, TEST.c.name).where(condition)
    rows = connection.execute(query.order_by(TEST.c.suite, TEST.c.name).limit(_MOST_SHOWN + 1))
    return [NamedTest(number=number, suite=suite, name=name) for number, suite, name in rows]


# --- all attempts of one test ---


class KeptAttempt(Struct, frozen=True):
    """One attempt with its job; the order of the fields is that of the query."""

    started_ms: int
    outcome: int
    duration_ms: int | None
    branch: str | None
    commit: str | None
    job: str
    build: int | None
    agent: str | None
    cause: str | None


def attempts_of(
    connection: sa.Connection,
    test: int,
    window: HistoryWindow,
    branch: int,
    outside: frozenset[int] | None = None,
) -> list[KeptAttempt]:
    """The attempts of `test` in the window, in the order of time.

    A failure in a column of infrastructure is one of infrastructure, as in the list of flaky tests.
    outside: the numbers of the jobs in such columns; None if they are not known yet.
    """
    if outside is None:
        outside = frozenset(infra_jobs(columns_of(connection, window)))
    query = (
        sa.select(
            ATTEMPT.c.started_ms,
            ATTEMPT.c.outcome,
            ATTEMPT.c.duration_ms,
            BRANCH.c.name,
            COMMITS.c.sha,
            JOB.c.key,
            JOB.c.build,
            JOB.c.agent,
            CAUSE.c.title,
            JOB.c.id,
        )
        .select_from(ATTEMPT)
        .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
        .outerjoin(BRANCH, BRANCH.c.id == JOB.c.branch_id)
        .outerjoin(COMMITS, COMMITS.c.id == JOB.c.commit_id)
        .outerjoin(CAUSE, CAUSE.c.id == ATTEMPT.c.cause_id)
        .where(
            ATTEMPT.c.test_id == test,
            ATTEMPT.c.started_ms.between(window.since_ms, window.until_ms),
        )
        .order_by(ATTEMPT.c.started_ms, ATTEMPT.c.source_id, ATTEMPT.c.number)
    )
    if branch != ALL_BRANCHES:
        query = query.where(JOB.c.branch_id == branch)
    return [_kept(KeptAttempt(*row), job in outside) for *row, job in connection.execute(query)]


def _kept(attempt: KeptAttempt, is_outside: bool) -> KeptAttempt:
    if is_outside and attempt.outcome in (AttemptOutcome.FAILED, AttemptOutcome.ERROR):
        return replace(attempt, outcome=int(AttemptOutcome.INFRA))
    return attempt


# --- the attempts of one test -> its history ---

_LAST: Final = 20
_RED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.ERROR})
_UNKNOWN: Final = "unknown"


def one_test_facts(test: NamedTest, attempts: Sequence[KeptAttempt]) -> OneTestFacts:
    """What is known of `test`. Raises UsageError if it has no attempt."""
    if not attempts:
        raise UsageError(
            f"{test.suite}::{test.name} has no attempt in this time, or on this branch",
            hint="look further back with --days",
        )
    counts = Counter(each.outcome for each in attempts)
    failed = counts[AttemptOutcome.FAILED] + counts[AttemptOutcome.ERROR]
    passed = counts[AttemptOutcome.PASSED]
    causes = Counter(each.cause for each in attempts if each.cause is not None)
    lengths = [each.duration_ms for each in attempts if each.duration_ms is not None]
    return OneTestFacts(
        suite=test.suite,
        name=test.name,
        passed=passed,
        failed=failed,
        infra=counts[AttemptOutcome.INFRA],
        skipped=counts[AttemptOutcome.SKIPPED],
        failure_rate=rate_facts(failed, passed + failed),
        first_at=utc_text(attempts[0].started_ms),
        last_at=utc_text(attempts[-1].started_ms),
        median_s=median(lengths) / 1000 if lengths else None,
        causes=dict(causes.most_common()),
        agents=_agents(attempts),
        last=tuple(_facts(each) for each in reversed(attempts[-_LAST:])),
    )


def _agents(attempts: Iterable[KeptAttempt]) -> tuple[AgentRateFacts, ...]:
    """The agents, that with the surest failures first."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in attempts:
        if each.outcome == AttemptOutcome.PASSED:
            sums[each.agent or _UNKNOWN][0] += 1
        elif each.outcome in _RED:
            sums[each.agent or _UNKNOWN][1] += 1
    facts = [
        AgentRateFacts(
            agent=agent,
            passed=passed,
            failed=failed,
            failure_rate=rate_facts(failed, passed + failed),
        )
        for agent, (passed, failed) in sums.items()
    ]
    return tuple(sorted(facts, key=lambda each: (-each.failure_rate.low, each.agent)))


def _facts(attempt: KeptAttempt) -> HistoryAttemptFacts:
    duration = attempt.duration_ms
    return HistoryAttemptFacts(
        at=utc_text(attempt.started_ms),
        outcome=AttemptOutcome(attempt.outcome).name.lower(),
        duration_s=None if duration is None else duration / 1000,
        branch=attempt.branch,
        commit=attempt.commit,
        build=attempt.build,
        agent=attempt.agent,
        cause=attempt.cause,
    )


# --- the attempts of one test -> when it began to fail ---

_MOST_COMMITS: Final = 50
# A change of at least this probability is named.
NAMED_FROM: Final = 0.95


class _CommitRuns(Struct, frozen=True, kw_only=True):
    commit: str
    first_ms: int
    counts: RunCounts


def began_facts(test: NamedTest, attempts: Sequence[KeptAttempt]) -> BeganFacts:
    """The commit with which the rate of failures of `test` changed, as an interval.

    Commits stand in the order of their first run. Failures for a reason outside, and skips, do not
    count. Raises UsageError for fewer than two commits.
    """
    runs = _by_commit(attempts)
    point = change_point([each.counts for each in runs])
    if point is None:
        raise UsageError(
            f"{test.suite}::{test.name} ran on {len(runs)} commit in this time: "
            "nothing can have begun",
            hint="look further back with --days",
        )
    likeliest = max(range(len(runs)), key=lambda at: point.by_commit[at])
    before = _rate(runs[:likeliest])
    after = _rate(runs[likeliest:])
    return BeganFacts(
        suite=test.suite,
        name=test.name,
        probability=round(point.probability, 6),
        last_good=runs[point.first - 1].commit,
        first=runs[point.first].commit,
        last=runs[point.last].commit,
        rate_before=before,
        rate_after=after,
        is_better=after.rate < before.rate,
        runs=sum(each.counts.passed + each.counts.failed for each in runs),
        commits=_interval(runs, point),
    )


def _by_commit(attempts: Iterable[KeptAttempt]) -> list[_CommitRuns]:
    """Each commit with its runs; a job without a commit stands for itself."""
    sums: dict[str, list[int]] = {}
    for each in attempts:
        if each.outcome != AttemptOutcome.PASSED and each.outcome not in _RED:
            continue
        commit = each.commit or f"job {each.job}"
        counts = sums.setdefault(commit, [each.started_ms, 0, 0])
        counts[2 if each.outcome in _RED else 1] += 1
    return [
        _CommitRuns(commit=commit, first_ms=first, counts=RunCounts(passed=passed, failed=failed))
        for commit, (first, passed, failed) in sums.items()
    ]


def _rate(runs: Iterable[_CommitRuns]) -> RateFacts:
    passed = failed = 0
    for each in runs:
        passed += each.counts.passed
        failed += each.counts.failed
    return rate_facts(failed, passed + failed)


def _interval(runs: Sequence[_CommitRuns], point: ChangePoint) -> tuple[CommitRunFacts, ...]:
    """The commits of the interval, the likeliest ones if there are very many."""
    places = list(range(point.first, point.last + 1))
    places.sort(key=lambda at: -point.by_commit[at])
    return tuple(
        CommitRunFacts(
            commit=runs[at].commit,
            first_at=utc_text(runs[at].first_ms),
            passed=runs[at].counts.passed,
            failed=runs[at].counts.failed,
            probability=round(point.by_commit[at], 6),
        )
        for at in sorted(places[:_MOST_COMMITS])
    )
