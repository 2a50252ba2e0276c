# SPDX-License-Identifier: Apache-2.0
"""Reads a database: the attempts of one test, and when it began to fail; and entries for the quarantine."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
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
    TEST_COMMIT,
    Question,
)
from ci_doctor.history.evidence import AttemptOutcome, stored_text, test_label, utc_text
from ci_doctor.history.flaky import columns_of, infra_jobs
from ci_doctor.history.statistics import NAMED_FROM, change_point, wilson
from ci_doctor.model.facts.history import (
    AgentRateFacts,
    BeganFacts,
    CommitRunFacts,
    FlakyTestFacts,
    HistoryAttemptFacts,
    OneTestFacts,
    QuarantineEntryFacts,
    QuarantineFacts,
    RateFacts,
    UnsuggestedFacts,
)
from ci_doctor.model.outcome import junit_identity
from ci_doctor.render.formatting import amount, percent

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


def one_test_facts(test: NamedTest, attempts: Sequence[HistoryAttemptFacts]) -> OneTestFacts | None:
    """What is known of `test`; None if it has no attempt."""
    if not attempts:
        return None
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


def began_facts(test: NamedTest, attempts: Sequence[HistoryAttemptFacts]) -> BeganFacts | None:
    """The commit with which the rate of failures of `test` changed, as an interval.

    Commits stand in the order of their first run. Failures for a reason outside, and skips, do not
    count. None if it ran on fewer than two commits.
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
        return None
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


# --- the flaky tests -> entries for ci-doctor-quarantine.toml, and why others get none ---


# One commit may have passed and failed by an accident of the machine.
FEWEST_COMMITS: Final = 2
# So many later commits ran the step without the test: shards of one commit may leave it out.
_FEWEST_WITHOUT: Final = 3
# A test that fails as often as before passes so many times in a row with this probability at most.
_CHANCE: Final = 0.05
# A test that failed at least as often before the change was flaky already.
_MOST_BEFORE: Final = 0.05


def suggested(asked: Question, flaky: Sequence[FlakyTestFacts], *, days: int) -> QuarantineFacts:
    """Entries that end in `days` for those of `flaky` that are proven by two commits and still matter."""
    outside = frozenset(infra_jobs(columns_of(asked)))
    reasons: dict[tuple[str, str], str] = {}
    for each in flaky:
        number = asked.connection.scalar(
            sa.select(TEST.c.id).where(TEST.c.suite == each.suite, TEST.c.name == each.name)
        )
        if each.mixed_commits < FEWEST_COMMITS or number is None:
            continue
        reason = why_not(
            NamedTest(number=number, suite=each.suite, name=each.name),
            attempts_of(asked, number, outside),
            commits_without=_commits_without(asked.connection, number),
        )
        if reason is not None:
            reasons[each.suite, each.name] = reason
    return quarantine_facts(flaky, reasons, now_ms=asked.window.until_ms, days=days)


def _commits_without(connection: sa.Connection, test: int) -> int:
    """Commits that ran its step after its last attempt, and not the test.

    At least half of the tests that last ran beside it must have run: another file, or another shard, may
    have the same step.
    """
    last = connection.execute(
        sa.select(TEST_COMMIT.c.commit_id, TEST_COMMIT.c.step, TEST_COMMIT.c.last_ms)
        .where(TEST_COMMIT.c.test_id == test)
        .order_by(TEST_COMMIT.c.last_ms.desc())
        .limit(1)
    ).first()
    if last is None:
        return 0
    beside = sa.select(TEST_COMMIT.c.test_id).where(
        TEST_COMMIT.c.commit_id == last.commit_id,
        TEST_COMMIT.c.step == last.step,
        TEST_COMMIT.c.test_id != test,
    )
    others = connection.scalar(sa.select(sa.func.count()).select_from(beside.subquery())) or 0
    if not others:
        return 0
    with_it = sa.select(TEST_COMMIT.c.commit_id).where(TEST_COMMIT.c.test_id == test)
    without = (
        sa.select(TEST_COMMIT.c.commit_id)
        .where(
            TEST_COMMIT.c.step == last.step,
            TEST_COMMIT.c.last_ms > last.last_ms,
            TEST_COMMIT.c.commit_id.not_in(with_it),
            TEST_COMMIT.c.test_id.in_(beside),
        )
        .group_by(TEST_COMMIT.c.commit_id)
        .having(2 * sa.func.count() >= others)
    )
    return connection.scalar(sa.select(sa.func.count()).select_from(without.subquery())) or 0


def why_not(
    test: NamedTest, attempts: Sequence[HistoryAttemptFacts], *, commits_without: int
) -> str | None:
    """Why a flaky test gets no entry: it does not run any more, is mended, or a commit broke it. Pure.

    attempts: in the order of time. commits_without: later commits that ran its step without it.
    """
    if commits_without >= _FEWEST_WITHOUT:
        commits = amount(commits_without, "later commit")
        return f"it does not run any more: {commits} ran its step without it"
    decided = [each.outcome in RED for each in attempts if each.outcome in DECIDED]
    if not any(decided):
        return "it did not fail in this time, or on this branch"
    since = decided[::-1].index(True)
    before = decided[: len(decided) - since]
    rate = sum(before) / len(before)
    if since and (1 - rate) ** since <= _CHANCE:
        return (
            f"it looks mended: {since:,} passed since its last failure, after "
            f"{amount(sum(before), 'failure')} in {amount(len(before), 'attempt')}"
        )
    began = began_facts(test, attempts)
    if began is None:
        return None
    is_named = began.probability >= NAMED_FROM and not began.is_better
    if is_named and began.rate_before.rate < _MOST_BEFORE:
        return (
            f"it began with a commit, between {began.first} and {began.last}: it fails in "
            f"{percent(began.rate_after.rate)} since, and in {percent(began.rate_before.rate)} before"
        )
    return None


def quarantine_facts(
    flaky: Iterable[FlakyTestFacts],
    reasons: dict[tuple[str, str], str],
    *,
    now_ms: int,
    days: int,
) -> QuarantineFacts:
    """An entry for each test that passed and failed on two commits or more; it ends in `days`. Pure.

    reasons: why a test gets none, by suite and name.
    """
    until = (datetime.fromtimestamp(now_ms / 1000, UTC) + timedelta(days=days)).date()
    proven = [test for test in flaky if test.mixed_commits >= FEWEST_COMMITS]
    entries = [
        QuarantineEntryFacts(
            test=test_label(test.suite, test.name),
            reason=f"passed and failed on {amount(test.mixed_commits, 'commit')}; "
            f"fails in {percent(test.failure_rate.rate)}",
            until=until.isoformat(),
        )
        for test in proven
        if (test.suite, test.name) not in reasons
    ]
    unsuggested = [
        UnsuggestedFacts(test=test_label(test.suite, test.name), why=reasons[test.suite, test.name])
        for test in proven
        if (test.suite, test.name) in reasons
    ]
    return QuarantineFacts(
        entries=tuple(entries),
        toml="\n".join(map(_toml, entries)),
        unsuggested=tuple(unsuggested),
    )


def _toml(entry: QuarantineEntryFacts) -> str:
    return (
        "[[quarantine]]\n"
        f"test = {_text(entry.test)}\n"
        f"reason = {_text(entry.reason)}\n"
        'owner = ""\n'
        f"until = {entry.until}\n"
    )


def _text(text: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON; DEL alone must be escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
