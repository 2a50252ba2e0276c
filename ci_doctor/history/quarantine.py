# SPDX-License-Identifier: Apache-2.0
"""Reads a database: the flaky tests -> entries for ci-doctor-quarantine.toml, and why others get none."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from ci_doctor.errors import UsageError
from ci_doctor.history.database import TEST, TEST_COMMIT, Question
from ci_doctor.history.evidence import test_label
from ci_doctor.history.flaky import columns_of, infra_jobs
from ci_doctor.history.one_test import (
    DECIDED,
    RED,
    NamedTest,
    attempts_of,
    began_facts,
)
from ci_doctor.history.statistics import NAMED_FROM
from ci_doctor.model.facts.history import (
    FlakyTestFacts,
    HistoryAttemptFacts,
    QuarantineEntryFacts,
    QuarantineFacts,
    UnsuggestedFacts,
)
from ci_doctor.render.formatting import amount, percent

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
    try:
        began = began_facts(test, attempts)
    except UsageError:  # one commit
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
