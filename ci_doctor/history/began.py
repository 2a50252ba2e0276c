# SPDX-License-Identifier: Apache-2.0
"""Pure. The attempts of one test -> when it began to fail."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import AttemptOutcome
from ci_doctor.history.kept_attempts import KeptAttempt
from ci_doctor.history.named_test import NamedTest
from ci_doctor.history.rates import rate_facts
from ci_doctor.history.reading.moments import utc_text
from ci_doctor.history.statistics.change_point import ChangePoint, RunCounts, change_point
from ci_doctor.model.facts.history import BeganFacts, CommitRunFacts, RateFacts

_RED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.ERROR})
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
