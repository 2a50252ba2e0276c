from pathlib import Path

import sqlalchemy as sa
from msgspec.structs import replace

from ci_doctor.history.batch_write import EvidenceWriter
from ci_doctor.history.engine import reading
from ci_doctor.history.migrations.versions.v0002_sums import fill_statements
from ci_doctor.history.migrations.versions.v0003_steps import FILL_COMMITS
from ci_doctor.history.schema import ATTEMPT, JOB, TEST_COMMIT, TEST_DAY
from tests.support.histories import E, F, I, P, S, engine_of, run

RUNS = [
    run([("x", P), ("y", F), ("y", P)], at=1, commit="a"),
    run([("x", F), ("y", S), ("z", I)], at=30, commit="a", agent="gpu-2", step="cuda"),
    run([("x", E)], at=31, commit=None, branch=None),
]


def rows(connection: sa.Connection, table: sa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in connection.execute(sa.select(table)))


def test_a_file_counts_once_however_often_it_is_written(tmp_path: Path) -> None:
    with engine_of(tmp_path / "h.sqlite") as engine:
        first = EvidenceWriter(engine).write([*RUNS, RUNS[0]], 0)
        again = EvidenceWriter(engine).write(RUNS, 0)
        with reading(engine) as connection:
            attempts = rows(connection, ATTEMPT)

    assert (first.files, first.attempts, first.known_files) == (3, 7, 1)
    assert (again.files, again.attempts, again.known_files) == (0, 0, 3)
    assert len(attempts) == 7


def test_the_sums_kept_by_writes_are_those_of_the_attempts(tmp_path: Path) -> None:
    with engine_of(tmp_path / "h.sqlite") as engine:
        writer = EvidenceWriter(engine)
        for each in RUNS:
            writer.write([each], 0)
        with reading(engine) as connection:
            kept = (rows(connection, TEST_DAY), rows(connection, TEST_COMMIT))
        with engine.begin() as connection:
            for table in (TEST_DAY, TEST_COMMIT):
                connection.execute(sa.delete(table))
            for statement in (*fill_statements()[:2], FILL_COMMITS):
                connection.execute(sa.text(statement))
            made = (rows(connection, TEST_DAY), rows(connection, TEST_COMMIT))

    assert kept == made
    assert len(kept[0]) == 9
    assert len(kept[1]) == 4


def test_the_files_of_one_job_are_one_job(tmp_path: Path) -> None:
    first = run([("x", P)], at=1, commit="a")
    second = run([("x", F)], at=1, commit="a")

    with engine_of(tmp_path / "h.sqlite") as engine:
        writer = EvidenceWriter(engine)
        writer.write([first], 0)
        writer.write([second, run([("y", F)], at=1, commit="a")], 0)
        with reading(engine) as connection:
            query = sa.select(JOB.c.passed, JOB.c.failed, JOB.c.duration_ms)
            jobs = [tuple(row) for row in connection.execute(query)]

    assert jobs == [(1, 2, 600_000)]


def test_a_job_whose_commit_comes_after_its_attempts_is_named(tmp_path: Path) -> None:
    early = run([("x", F)], at=1, commit=None, branch=None)
    late = run([("y", P)], at=1, commit="a", step="unit")
    late = replace(late, job=replace(late.job, key=early.job.key))
    other = run([("x", P)], at=2, commit="a")

    with engine_of(tmp_path / "h.sqlite") as engine:
        writer = EvidenceWriter(engine)
        first = writer.write([early, other], 0)
        second = writer.write([late, other], 0)
        third = writer.write([replace(late, sha256="f" * 64)], 0)

    assert (first.late_jobs, third.late_jobs) == ((), ())
    assert second.late_jobs == (early.job.key,)
