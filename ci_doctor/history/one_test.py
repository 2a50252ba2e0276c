# SPDX-License-Identifier: Apache-2.0
"""Reads a database: the attempts of one test, and when it began to fail."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from statistics import median
from typing import Final

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.history.database import (
    ATTEMPT,
    BRANCH,
    CAUSE,
    COMMITS,
    JOB,
    TEST,
    Question,
)
from ci_doctor.history.evidence import AttemptOutcome, stored_text, utc_text
from ci_doctor.history.flaky import columns_of, infra_jobs
from ci_doctor.history.statistics import change_point, wilson
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
# The words for outcomes, as reports have them.
PASSED, FAILED, ERROR, SKIPPED, INFRA = (each.name.lower() for each in AttemptOutcome)
RED: Final = frozenset({FAILED, ERROR})
DECIDED: Final = RED | {PASSED}


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


def attempts_of(
    asked: Question, test: int, outside: Collection[int] | None = None
) -> list[HistoryAttemptFacts]:
    """The attempts of `test` in the window, in the order of time.

    A failure in a column of infrastructure is one of infrastructure, as in the list of flaky tests.
    outside: the numbers of the jobs in such columns; None if they are not known yet.
    """
    if outside is None:
        outside = frozenset(infra_jobs(columns_of(asked)))
    query = (
        asked.attempts(
            ATTEMPT.c.started_ms,
            ATTEMPT.c.outcome,
            ATTEMPT.c.duration_ms,
            BRANCH.c.name.label("branch"),
            COMMITS.c.sha.label("commit"),
            JOB.c.id,
            JOB.c.key,
            JOB.c.build,
            JOB.c.agent,
            CAUSE.c.title.label("cause"),
        )
        .join(JOB, JOB.c.id == ATTEMPT.c.job_id)
        .outerjoin(BRANCH, BRANCH.c.id == JOB.c.branch_id)
        .outerjoin(COMMITS, COMMITS.c.id == JOB.c.commit_id)
        .outerjoin(CAUSE, CAUSE.c.id == ATTEMPT.c.cause_id)
        .where(ATTEMPT.c.test_id == test)
        .order_by(ATTEMPT.c.started_ms, ATTEMPT.c.source_id, ATTEMPT.c.number)
    )
    return [
        HistoryAttemptFacts(
            at=utc_text(row.started_ms),
            outcome=_word(row.outcome, is_outside=row.id in outside),
            duration_s=None if row.duration_ms is None else row.duration_ms / 1000,
            branch=row.branch,
            commit=row.commit,
            job=row.key,
            build=row.build,
            agent=row.agent,
            cause=row.cause,
        )
        for row in asked.connection.execute(query)
    ]


def _word(outcome: int, *, is_outside: bool) -> str:
    word = AttemptOutcome(outcome).name.lower()
    return INFRA if is_outside and word in RED else word


# --- the attempts of one test -> its history ---

_LAST: Final = 20
_UNKNOWN: Final = "unknown"


def one_test_facts(test: NamedTest, attempts: Sequence[HistoryAttemptFacts]) -> OneTestFacts:
    """What is known of `test`. Raises UsageError if it has no attempt."""
    if not attempts:
        raise UsageError(
            f"{test.suite}::{test.name} has no attempt in this time, or on this branch",
            hint="look further back with --days",
        )
    counts = Counter(each.outcome for each in attempts)
    failed = sum(counts[word] for word in RED)
    causes = Counter(each.cause for each in attempts if each.cause is not None)
    lengths = [each.duration_s for each in attempts if each.duration_s is not None]
    return OneTestFacts(
        suite=test.suite,
        name=test.name,
        passed=counts[PASSED],
        failed=failed,
        infra=counts[INFRA],
        skipped=counts[SKIPPED],
        failure_rate=wilson(failed, counts[PASSED] + failed),
        first_at=attempts[0].at,
        last_at=attempts[-1].at,
        median_s=median(lengths) if lengths else None,
        causes=dict(causes.most_common()),
        agents=_agents(attempts),
        last=tuple(reversed(attempts[-_LAST:])),
    )


def _agents(attempts: Iterable[HistoryAttemptFacts]) -> tuple[AgentRateFacts, ...]:
    """The agents, that with the surest failures first."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in attempts:
        if each.outcome in DECIDED:
            sums[each.agent or _UNKNOWN][each.outcome in RED] += 1
    facts = [
        AgentRateFacts(
            agent=agent,
            passed=passed,
            failed=failed,
            failure_rate=wilson(failed, passed + failed),
        )
        for agent, (passed, failed) in sums.items()
    ]
    return tuple(sorted(facts, key=lambda each: (-each.failure_rate.low, each.agent)))


# --- the attempts of one test -> when it began to fail ---

_MOST_COMMITS: Final = 50


def began_facts(test: NamedTest, attempts: Sequence[HistoryAttemptFacts]) -> BeganFacts:
    """The commit with which the rate of failures of `test` changed, as an interval.

    Commits stand in the order of their first run. Failures for a reason outside, and skips, do not
    count. Raises UsageError for fewer than two commits.
    """
    # A job without a commit stands for itself.
    starts: dict[str, str] = {}
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in attempts:
        if each.outcome in DECIDED:
            commit = each.commit or f"job {each.job}"
            starts.setdefault(commit, each.at)
            sums[commit][each.outcome in RED] += 1
    commits = list(sums)
    runs = [(passed, failed) for passed, failed in sums.values()]
    point = change_point(runs)
    if point is None:
        raise UsageError(
            f"{test.suite}::{test.name} ran on {len(runs)} commit in this time: "
            "nothing can have begun",
            hint="look further back with --days",
        )
    likeliest = max(range(len(runs)), key=lambda at: point.by_commit[at])
    before = _rate(runs[:likeliest])
    after = _rate(runs[likeliest:])
    # The commits of the interval, the likeliest ones if there are very many.
    places = sorted(range(point.first, point.last + 1), key=lambda at: -point.by_commit[at])
    return BeganFacts(
        suite=test.suite,
        name=test.name,
        probability=round(point.probability, 6),
        last_good=commits[point.first - 1],
        first=commits[point.first],
        last=commits[point.last],
        rate_before=before,
        rate_after=after,
        is_better=after.rate < before.rate,
        runs=sum(passed + failed for passed, failed in runs),
        commits=tuple(
            CommitRunFacts(
                commit=commits[at],
                first_at=starts[commits[at]],
                passed=runs[at][0],
                failed=runs[at][1],
                probability=round(point.by_commit[at], 6),
            )
            for at in sorted(places[:_MOST_COMMITS])
        ),
    )


def _rate(runs: Sequence[tuple[int, int]]) -> RateFacts:
    failed = sum(failed for _, failed in runs)
    return wilson(failed, failed + sum(passed for passed, _ in runs))
