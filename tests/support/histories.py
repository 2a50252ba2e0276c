# SPDX-License-Identifier: Apache-2.0
"""Acts on databases: histories for tests, in real SQLite files."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import sqlalchemy as sa
from msgspec.structs import replace

from ci_doctor.history.address import DatabaseAddress
from ci_doctor.history.database import HistoryWindow, reading
from ci_doctor.history.evidence import AttemptEvidence, AttemptOutcome, EvidenceFile, JobEvidence
from ci_doctor.history.upkeep import open_database
from ci_doctor.history.writing import EvidenceWriter
from ci_doctor.model.cause import Cause

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BEGIN_MS = 20_400 * DAY_MS  # a midnight in UTC
WHOLE = HistoryWindow(since_ms=0, until_ms=BEGIN_MS + 1_000 * DAY_MS)
P, F, E, S, I = AttemptOutcome  # passed, failed, error, skipped, infra  # noqa: E741


def run(
    outcomes: Iterable[tuple[str, AttemptOutcome]],
    *,
    at: int,
    commit: str | None = None,
    agent: str | None = "gpu-1",
    branch: str | None = "main",
    cause: Cause | None = None,
    gpus: int | None = None,
    step: str | None = None,
) -> EvidenceFile:
    """The evidence of one job, `at` hours after the beginning; it took ten minutes."""
    started = BEGIN_MS + at * HOUR_MS
    counts: dict[str, int] = {}
    attempts = []
    for name, outcome in outcomes:
        counts[name] = counts.get(name, 0) + 1
        failure = None
        if outcome in (F, E):
            failure = Cause(fingerprint=f"f-{name}", title=f"{name} broke")
        attempts.append(
            AttemptEvidence(
                suite="tests.test_a",
                name=name,
                outcome=outcome,
                number=counts[name],
                started_ms=started,
                duration_ms=500,
                cause=failure,
            )
        )
    key = f"{at}/{agent}/{commit}/{branch}" + (f"/{step}" if step else "")
    job = JobEvidence(
        key=key,
        pipeline="serving",
        build=at,
        step=step,
        branch=branch,
        commit=commit,
        agent=agent,
        gpus=gpus,
        started_ms=started,
        duration_ms=600_000,
        cause=cause,
    )
    return EvidenceFile(
        sha256=sha256(repr((key, attempts)).encode()).hexdigest(),
        place=f"{key}.xml",
        form="junit",
        job=job,
        attempts=tuple(attempts),
    )


@contextmanager
def history(file: Path, runs: Sequence[EvidenceFile]) -> Iterator[sa.Connection]:
    """A connection to a history of `runs`."""
    with engine_of(file) as engine:
        EvidenceWriter(engine).write(runs, BEGIN_MS)
        with reading(engine) as connection:
            yield connection


@contextmanager
def engine_of(file: Path) -> Iterator[sa.Engine]:
    """An engine for a history in `file`."""
    engine = open_database(DatabaseAddress(file=file), busy_s=60)
    try:
        yield engine
    finally:
        engine.dispose()


def numbered_run(number: int) -> EvidenceFile:
    """One of many different files: ten tests, of which one fails.

    Two files are of one job, of which the second one alone knows commit, branch and step; two jobs share a commit.
    """
    outcomes = [(f"t{each}", F if each == number % 10 else P) for each in range(10)]
    agent = f"gpu-{number % 3}"
    if number % 2:
        made = run(outcomes, at=number, commit=f"c{number // 4}", agent=agent, step="unit")
    else:
        made = run(outcomes, at=number, agent=agent, branch=None)
    return replace(made, job=replace(made.job, key=f"job-{number // 2}"))


_PASSED = "COUNT(CASE WHEN a.outcome = 0 THEN 1 END)"
_FAILED = "COUNT(CASE WHEN a.outcome IN (1, 2) THEN 1 END)"
_INFRA = "COUNT(CASE WHEN a.outcome = 4 THEN 1 END)"
# The sums as SQL makes them of all attempts: what the writers keep must be equal to them.
SUMS_OF_ATTEMPTS = (
    f"""
    INSERT INTO test_day (branch_id, day, test_id, passed, failed, infra, duration_ms)
    SELECT COALESCE(j.branch_id, 0), a.started_ms / 86400000, a.test_id,
           {_PASSED}, {_FAILED}, {_INFRA}, COALESCE(SUM(a.duration_ms), 0)
    FROM attempt a JOIN job j ON j.id = a.job_id
    WHERE a.outcome <> 3
    GROUP BY 1, 2, 3
    """,
    """
    INSERT INTO test_day (branch_id, day, test_id, passed, failed, infra, duration_ms)
    SELECT -1, day, test_id, SUM(passed), SUM(failed), SUM(infra), SUM(duration_ms)
    FROM test_day
    GROUP BY 1, 2, 3
    """,
    f"""
    INSERT INTO test_commit (commit_id, test_id, step, passed, failed, infra, last_ms)
    SELECT j.commit_id, a.test_id, COALESCE(j.step, ''), {_PASSED}, {_FAILED}, {_INFRA}, MAX(a.started_ms)
    FROM attempt a JOIN job j ON j.id = a.job_id
    WHERE a.outcome <> 3 AND j.commit_id IS NOT NULL
    GROUP BY 1, 2, 3
    """,
)
