# SPDX-License-Identifier: Apache-2.0

from pathlib import Path

import pytest
import sqlalchemy as sa

from ci_doctor.errors import UsageError
from ci_doctor.history.address import DatabaseAddress, database_address
from ci_doctor.history.database import JOB, reading
from ci_doctor.history.recording import record
from ci_doctor.model.outcome import About, Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.system.secrets.redaction import Redactor
from tests.support.builders import a_finding, a_report
from tests.support.histories import engine_of
from tests.support.silent_server import LOGGED_IN, silent_server
from tests.support.tables import lines_of

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
