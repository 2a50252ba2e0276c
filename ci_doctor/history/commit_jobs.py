# SPDX-License-Identifier: Apache-2.0
"""Reads a database: how tests ended in the jobs of some commits, and which tests ran there."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.history.evidence import AttemptOutcome
from ci_doctor.history.schema import ATTEMPT, COMMITS, JOB, TEST, TEST_COMMIT

_CHUNK: Final = 400
# Of commits in one question: a busy one has a hundred jobs.
_MOST_COMMITS: Final = 50
_RED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.ERROR})
# A test: the class name and the name that JUnit files have.
Identity = tuple[str, str]
T = TypeVar("T")


class CommitJob(Struct, frozen=True, kw_only=True):
    """How one test ended in a job of `commit`; passed: at least once, and it never failed there."""

    commit: str
    build: int | None
    started_ms: int
    passed: bool


class _JobRow(NamedTuple):
    id: int
    build: int | None
    started_ms: int


class CommitJobs:
    """The jobs of the first `most` of `commits` that have any; of a pipeline and a step if they are known.

    pipeline, step: None for all of them.
    """

    def __init__(
        self,
        connection: sa.Connection,
        commits: Sequence[str],
        *,
        pipeline: str | None = None,
        step: str | None = None,
        most: int = 20,
    ) -> None:
        self._connection = connection
        self._jobs: dict[str, list[_JobRow]] = {}
        for some in _chunks(commits, _MOST_COMMITS):
            by_commit: dict[str, list[_JobRow]] = defaultdict(list)
            for row in connection.execute(_jobs_query(some, pipeline, step)):
                by_commit[row.sha].append(_JobRow(row.id, row.build, row.started_ms))
            for commit in some:
                if commit in by_commit and len(self._jobs) < most:
                    self._jobs[commit] = by_commit[commit]
            if len(self._jobs) >= most:
                break

    @property
    def commits(self) -> tuple[str, ...]:
        """Those that have a job, in their order."""
        return tuple(self._jobs)

    def of_tests(self, tests: Collection[Identity]) -> dict[Identity, tuple[CommitJob, ...]]:
        """How each test ended in these jobs.

        A job counts once, however often it tried the test: one red attempt makes it a failure. Jobs
        that only skipped it, or failed for a reason outside, count nowhere.
        """
        numbers = _numbers(self._connection, tests)
        outcomes: dict[tuple[int, int], set[int]] = defaultdict(set)
        for test, job, outcome in self._attempts(numbers.values()):
            outcomes[test, job].add(outcome)
        return {name: tuple(self._ended(number, outcomes)) for name, number in numbers.items()}

    def known(self, tests: Collection[Identity]) -> frozenset[Identity]:
        """Those of `tests` that have an attempt in these jobs; a skip is one, too."""
        numbers = _numbers(self._connection, tests)
        by_number = {number: name for name, number in numbers.items()}
        known: set[int] = set()
        query = sa.select(TEST_COMMIT.c.test_id).join(
            COMMITS, COMMITS.c.id == TEST_COMMIT.c.commit_id
        )
        known.update(
            self._connection.scalars(query.where(COMMITS.c.sha.in_(self.commits)).distinct())
        )
        # The sums hold no skips.
        rest = by_number.keys() - known
        known.update(test for test, _, _ in self._attempts(rest))
        return frozenset(by_number[number] for number in known & by_number.keys())

    def _attempts(self, numbers: Iterable[int]) -> Iterator[tuple[int, int, int]]:
        jobs = [job.id for rows in self._jobs.values() for job in rows]
        for some_jobs in _chunks(jobs):
            for tests in _chunks(numbers):
                query = sa.select(ATTEMPT.c.test_id, ATTEMPT.c.job_id, ATTEMPT.c.outcome).where(
                    ATTEMPT.c.test_id.in_(tests), ATTEMPT.c.job_id.in_(some_jobs)
                )
                for row in self._connection.execute(query):
                    yield row.test_id, row.job_id, row.outcome

    def _ended(self, test: int, outcomes: dict[tuple[int, int], set[int]]) -> Iterator[CommitJob]:
        for commit, rows in self._jobs.items():
            for job in rows:
                tried = outcomes.get((test, job.id), set())
                failed = not tried.isdisjoint(_RED)
                if failed or AttemptOutcome.PASSED in tried:
                    yield CommitJob(
                        commit=commit,
                        build=job.build,
                        started_ms=job.started_ms,
                        passed=not failed,
                    )


def _jobs_query(
    commits: Sequence[str], pipeline: str | None, step: str | None
) -> sa.Select[tuple[str, int, int | None, int]]:
    query = sa.select(COMMITS.c.sha, JOB.c.id, JOB.c.build, JOB.c.started_ms)
    query = query.join(JOB, COMMITS.c.id == JOB.c.commit_id).where(COMMITS.c.sha.in_(commits))
    if pipeline is not None:
        query = query.where(JOB.c.pipeline == pipeline)
    if step is not None:
        query = query.where(JOB.c.step == step)
    return query.order_by(JOB.c.started_ms, JOB.c.id)


def _numbers(connection: sa.Connection, tests: Collection[Identity]) -> dict[Identity, int]:
    """The number of each test that the history has met."""
    names: dict[str, set[str]] = defaultdict(set)
    for suite, name in tests:
        names[suite].add(name)
    numbers: dict[Identity, int] = {}
    for suite, wanted in names.items():
        for some in _chunks(sorted(wanted)):
            query = sa.select(TEST.c.name, TEST.c.id)
            query = query.where(TEST.c.suite == suite, TEST.c.name.in_(some))
            numbers.update({(suite, name): number for name, number in connection.execute(query)})
    return numbers


def _chunks(values: Iterable[T], most: int = _CHUNK) -> Iterator[list[T]]:
    whole = list(values)
    for start in range(0, len(whole), most):
        yield whole[start : start + most]
