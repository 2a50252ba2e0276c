# SPDX-License-Identifier: Apache-2.0
""""""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.history.address import DatabaseAddress, database_address
from ci_doctor.history.database import (
    ALL_BRANCHES,
    ATTEMPT,
    BRANCH,
    COMMITS,
    JOB,
    TEST,
    TEST_COMMIT,
    TEST_DAY,
    reading,
)
from ci_doctor.history.evidence import EvidenceFile
from ci_doctor.history.recording import record
from ci_doctor.history.writing import EvidenceWriter
from ci_doctor.model.outcome import About, Report, Verdict
from ci_doctor.system.secrets.redaction import Redactor
from tests.support.builders import a_finding, a_report
from tests.support.histories import SUMS_OF_ATTEMPTS, E, F, I, P, S, engine_of, run
from tests.support.silent_server import LOGGED_IN, silent_server
from tests.support.tables import lines_of

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
            for statement in SUMS_OF_ATTEMPTS:
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


LATE = [
    run([("x", P), ("y", S)], at=1, commit=None, branch=None),
    run([("y", P), ("x", F)], at=1, commit="a", branch="main", step="unit"),
    run([("x", P)], at=1, commit="a", branch=None),
    run([("x", F), ("z", E)], at=2, commit="a", branch=None),
    run([("x", F)], at=30, commit="a"),
    run([], at=30, commit="a", step="cuda"),
    run([("x", P)], at=50, commit="a", step="cuda"),
    run([("x", F)], at=50, commit="a", step="cuda (3.12)"),
    run([("x", F)], at=50, commit="a", step="3.12"),
]


@pytest.mark.parametrize("order", [LATE, LATE[::-1], LATE[3:] + LATE[:3]], ids=range(3))
def test_the_order_of_a_jobs_files_changes_no_sum(
    tmp_path: Path, order: list[EvidenceFile]
) -> None:
    """The files at one hour are of one job, which knows its commit, its branch and its step bit by bit."""
    files = [replace(each, job=replace(each.job, key=str(each.job.build))) for each in order]
    with engine_of(tmp_path / "h.sqlite") as engine:
        EvidenceWriter(engine).write(files, 0)
        together = names_of_sums(engine)
    with engine_of(tmp_path / "late.sqlite") as engine:
        writer = EvidenceWriter(engine)
        for each in files:
            writer.write([each], 0)
        one_by_one = names_of_sums(engine)

    assert one_by_one == together
    steps = {step for *_, step in together[1]}
    assert steps == {"unit", "cuda", "cuda (3.12)", ""}


def names_of_sums(engine: sa.Engine) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The sums by names: the numbers of tests differ from database to database."""
    test = (TEST.c.name, TEST.c.suite)
    days = sa.select(*test, sa.func.coalesce(BRANCH.c.name, ""), TEST_DAY)
    days = days.join(TEST, TEST.c.id == TEST_DAY.c.test_id)
    days = days.outerjoin(BRANCH, BRANCH.c.id == TEST_DAY.c.branch_id)
    commits = sa.select(*test, COMMITS.c.sha, TEST_COMMIT.c.step, TEST_COMMIT)
    commits = commits.join(TEST, TEST.c.id == TEST_COMMIT.c.test_id)
    commits = commits.join(COMMITS, COMMITS.c.id == TEST_COMMIT.c.commit_id)
    with reading(engine) as connection:
        by_day = {
            (row[0], row[2], row.branch_id == ALL_BRANCHES, row.day): tuple(row)[-4:]
            for row in connection.execute(days)
        }
        by_commit = {
            (row[0], row.sha, row[3]): tuple(row)[-4:] for row in connection.execute(commits)
        }
    return by_day, by_commit


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


PLAIN = Redactor([]).text


def failed(job: str, at: str = "2026-11-03T10:00:00.000Z") -> Report:
    about = About(job=job, agent=f"gpu-{job}")
    return a_report(Verdict.FAILED, about=about, started_at=at, findings=(a_finding(),))


def test_a_cause_is_counted_by_job_since_the_first(tmp_path: Path) -> None:
    address = DatabaseAddress(file=tmp_path / "h.sqlite")

    lines = [lines_of(record(address, failed(job), PLAIN))[0] for job in ("1", "1", "2", "3")]

    assert lines[0].endswith("not seen before in this history")
    assert lines[1].endswith("seen 1 time since 2026-11-03, last on agent gpu-1")
    assert lines[2].endswith("seen 1 time since 2026-11-03, last on agent gpu-1")
    assert lines[3].endswith("seen 2 times since 2026-11-03, last on agent gpu-2")
    with engine_of(tmp_path / "h.sqlite") as engine, reading(engine) as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(JOB)) == 3


def test_what_cannot_be_written_is_a_line(tmp_path: Path) -> None:
    address = DatabaseAddress(file=tmp_path / "none" / "h.sqlite")

    (line,) = lines_of(record(address, failed("1"), PLAIN))

    assert line.startswith("not written: cannot open ")


def test_a_run_in_a_job_of_a_matrix_has_its_label_without_secrets_in_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILDKITE", "true")
    monkeypatch.setenv("BUILDKITE_JOB_ID", "1")
    monkeypatch.setenv("BUILDKITE_LABEL", "cuda 12 hunter2-of-the-build")
    monkeypatch.delenv("BUILDKITE_PARALLEL_JOB", raising=False)
    report = a_report(Verdict.PASS, about=About(job="1", step="unit"))

    record(
        DatabaseAddress(file=tmp_path / "h.sqlite"), report, Redactor(["hunter2-of-the-build"]).text
    )

    with engine_of(tmp_path / "h.sqlite") as engine, reading(engine) as connection:
        assert connection.scalar(sa.select(JOB.c.step)) == "unit (cuda 12 [redacted])"


@pytest.mark.parametrize("greeting", [b"", LOGGED_IN])
def test_a_server_that_never_answers_is_waited_for_no_longer_than_the_limit(
    greeting: bytes,
) -> None:
    with silent_server(greeting) as url:
        address = database_address(f"{url}?sslmode=disable&gssencmode=disable")
        (line,) = lines_of(record(address, failed("1"), PLAIN, limit_s=0.3))

    assert line == "not written: postgresql 127.0.0.1/h: no answer within 0.3 s"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_the_spellings_of_postgresql_are_one(scheme: str) -> None:
    address = database_address(f"{scheme}://ci:secret@db/history")

    assert address.url == "postgresql+psycopg://ci:secret@db/history"
    assert address.label == "postgresql db/history"


def test_a_path_and_a_url_of_sqlite_are_files_and_nothing_else_is() -> None:
    assert database_address("a/h.sqlite").file == Path("a/h.sqlite")
    assert database_address("sqlite:////tmp/h.sqlite").file == Path("/tmp/h.sqlite")
    lost = "names no file"  # it would be gone with the process
    for text, problem in (("mysql://db/history", "mysql://"), ("", lost), (":memory:", lost)):
        with pytest.raises(UsageError, match=problem):
            database_address(text)
