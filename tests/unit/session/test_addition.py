# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest

from ci_doctor.model.finding import Finding, Severity
from ci_doctor.model.outcome import Outcome, Report
from ci_doctor.model.table import text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.session.delivery import AddedFile, Addition
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session

PASSED = Outcome(verdict=Verdict.PASS, summary="all the same")
TABLE = text_table("Since the last green run", ("driver 1 to 2",))
FILE = AddedFile(name="environment.json", title="the environment", content=b"{}\n")


def a_session(directory: Path | None) -> Session:
    session = Session(Invocation.begin(("launch",)))
    session.named_directory = directory
    session.claim()
    return session


def report_in(directory: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((directory / "report.json").read_text())
    return content


def test_tables_and_files_stand_behind_those_of_the_outcome(tmp_path: Path) -> None:
    session = a_session(tmp_path)
    session.complete_with(lambda _: Addition(tables=(TABLE,), files=(FILE,)))

    assert session.finish(PASSED) == 0
    report = report_in(tmp_path)
    assert report["tables"] == [
        {"title": "Since the last green run", "rows": [{"label": "driver 1 to 2"}]}
    ]
    assert report["attachments"] == [
        {"path": "environment.json", "title": "the environment", "media_type": "application/json"}
    ]
    assert (tmp_path / "environment.json").read_bytes() == b"{}\n"


def test_a_text_of_the_commands_own_gets_the_added_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = a_session(tmp_path)
    session.complete_with(lambda _: Addition(text="  what changed\n"))

    session.finish(PASSED, text="it ended\n")

    assert capsys.readouterr().err == "it ended\n  what changed\n"


def test_the_outcome_is_the_one_that_will_be_reported(tmp_path: Path) -> None:
    verdicts = []

    def add(outcome: Outcome) -> Addition:
        verdicts.append(outcome.verdict)
        return Addition()

    session = a_session(tmp_path)
    session.observe(Finding(rule="x/y", severity=Severity.ERROR, summary="it is broken"))
    session.complete_with(add)

    assert session.finish(PASSED) == 1
    assert verdicts == [Verdict.FAILED]


def test_an_error_of_an_addition_takes_no_report_away(tmp_path: Path) -> None:
    def fail(_: Outcome) -> Addition:
        raise KeyError("driver")

    session = a_session(tmp_path)
    session.complete_with(fail)

    assert session.finish(PASSED) == 0
    assert report_in(tmp_path)["tables"] == [
        {"title": "Not added to this report", "rows": [{"label": "unknown: KeyError: 'driver'"}]}
    ]


def test_a_file_that_cannot_be_written_is_no_attachment(tmp_path: Path) -> None:
    (tmp_path / "environment.json").mkdir()
    session = a_session(tmp_path)
    session.complete_with(lambda _: Addition(tables=(TABLE,), files=(FILE,)))

    assert session.finish(PASSED) == 0
    report = report_in(tmp_path)
    assert report["attachments"] == []
    assert "cannot write" in str(report["tables"])


def test_a_file_of_an_earlier_run_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text("{}")
    session = a_session(tmp_path)

    session.complete_with(lambda _: Addition(), "environment.json")

    assert not (tmp_path / "environment.json").exists()


def test_without_a_report_directory_nothing_is_made() -> None:
    def fail(_: Outcome) -> Addition:
        raise AssertionError("nobody asks for it")

    session = a_session(None)
    session.complete_with(fail)

    assert session.finish(PASSED) == 0


def test_what_is_added_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2-hunter2")
    session = a_session(tmp_path)
    table = text_table("Since the last green run", ("x hunter2-hunter2",))
    session.complete_with(lambda _: Addition(tables=(table,)))

    session.finish(PASSED)

    assert "hunter2" not in (tmp_path / "report.json").read_text()


def test_a_run_that_is_not_accepted_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text("of the other run")
    session = Session(Invocation.begin(("correctness",)))
    session.named_directory = tmp_path
    session.protect()
    session.claim(clear=False)
    session.complete_with(lambda _: Addition(files=(FILE,)), "environment.json")

    session.finish(PASSED)

    assert (tmp_path / "environment.json").read_text() == "of the other run"


def test_what_is_added_gives_way_to_a_report_that_finds_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ci_doctor.session import delivery

    written = delivery.write

    def without_room(report: Report, directory: Path, junit: str = "verdict") -> tuple[str, ...]:
        if (directory / "environment.json").exists():
            return ("No space left on device",)
        return written(report, directory, junit)

    monkeypatch.setattr(delivery, "write", without_room)
    session = a_session(tmp_path)
    session.complete_with(lambda _: Addition(files=(FILE,)))

    assert session.finish(PASSED) == 0
    assert report_in(tmp_path)["verdict"] == "pass"
    assert not (tmp_path / "environment.json").exists()
