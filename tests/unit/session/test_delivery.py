# SPDX-License-Identifier: Apache-2.0
"""What ci-doctor leaves in `$GITHUB_STEP_SUMMARY`, and that nothing there changes a result."""

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import (
    EXIT_CODES,
    Attachment,
    Finding,
    Outcome,
    Report,
    Severity,
    Verdict,
    text_table,
)
from ci_doctor.session.delivery import (
    LIMIT_BYTES,
    Addition,
    ExitPolicy,
    append_summary,
    read_reports,
    undelivered,
)
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session
from tests.support.builders import a_report, sample_reports

REPORT = a_report(command="launch", summary="all the same")
FULL = ("cannot write r/report.json: No space left on device", "cannot write r/report.md: x")


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FLAKY, Verdict.INCONCLUSIVE, None])
def test_whatever_would_end_with_0_becomes_infra(verdict: Verdict | None) -> None:
    changed = undelivered(replace(REPORT, verdict=verdict), FULL, ExitPolicy())

    assert (changed.verdict, changed.exit_code) == (Verdict.INFRA, 75)
    assert changed.error is not None
    assert changed.error.message == f"{FULL[0]}, and 1 more"
    assert changed.summary == "all the same"


@pytest.mark.parametrize("verdict", [each for each in Verdict if EXIT_CODES[each]])
def test_a_failure_stays_what_it_is_and_says_so(verdict: Verdict) -> None:
    report = replace(REPORT, verdict=verdict, exit_code=int(EXIT_CODES[verdict]))

    changed = undelivered(report, FULL, ExitPolicy())

    assert (changed.verdict, changed.exit_code) == (verdict, report.exit_code)
    assert [each.rule for each in changed.findings] == ["report/not-delivered"]


def test_a_repositorys_own_code_of_infra_counts() -> None:
    assert undelivered(REPORT, FULL, ExitPolicy(codes={"infra": 255})).exit_code == 255


def test_a_reader_that_left_has_a_code_of_its_own() -> None:
    assert undelivered(REPORT, FULL[:1], ExitPolicy(), reader_code=141).exit_code == 141


PASSED = Outcome(verdict=Verdict.PASS, summary="all the same")
TABLE = text_table("Since the last green run", ("driver 1 to 2",))
FILE = Attachment(path="environment.json", title="the environment", media_type="application/json")
ADDED = Addition(file=FILE, content=b"{}\n")


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
    session.complete_with(lambda _: replace(ADDED, tables=(TABLE,)))

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

    assert capsys.readouterr().err == f"it ended\n  what changed\nreport: {tmp_path}/report.json\n"


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
    session.complete_with(lambda _: replace(ADDED, tables=(TABLE,)))

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
    session.complete_with(lambda _: ADDED, "environment.json")

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
    session.complete_with(lambda _: ADDED)

    assert session.finish(PASSED) == 0
    assert report_in(tmp_path)["verdict"] == "pass"
    assert not (tmp_path / "environment.json").exists()


REGRESSION = sample_reports()["regression"]


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    # The runner makes the file before a step begins.
    made = tmp_path / "summary.md"
    made.write_text("## The job's own words")
    return made


def github(summary: Path) -> dict[str, str]:
    return {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}


def test_reports_are_appended_as_paragraphs_of_their_own(summary: Path) -> None:
    append_summary(REGRESSION, github(summary))
    append_summary(a_report(), github(summary))

    text = summary.read_text()
    assert text.startswith("## The job's own words\n**✗ REGRESSION** `correctness`")
    assert "\n\n**✓ PASS** `correctness`" in text
    assert REGRESSION.attachments
    assert REGRESSION.attachments[0].path in text
    assert "artifact://" not in text


@pytest.mark.parametrize(
    "environ",
    [{}, {"GITHUB_ACTIONS": "true"}, {"GITHUB_STEP_SUMMARY": "summary.md"}],
    ids=["nowhere", "no file", "not GitHub"],
)
def test_outside_of_github_there_is_no_summary(
    environ: dict[str, str], summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(summary.parent)

    append_summary(REGRESSION, environ)

    assert summary.read_text() == "## The job's own words"


def test_what_judges_nothing_is_left_out(summary: Path) -> None:
    append_summary(a_report(None, error=None, exit_code=0), github(summary))
    append_summary(a_report(command="run"), github(summary))

    assert summary.read_text() == "## The job's own words"


def test_a_summary_stays_within_the_limit_of_a_step(summary: Path) -> None:
    report = replace(REGRESSION, findings=REGRESSION.findings * 50)
    summary.write_bytes(b"x" * (LIMIT_BYTES - 4000))
    for _ in range(5):
        append_summary(report, github(summary))

    size = summary.stat().st_size
    assert LIMIT_BYTES - 2000 < size <= LIMIT_BYTES


def test_a_file_without_room_is_left_as_it_is(summary: Path) -> None:
    summary.write_bytes(b"x" * (LIMIT_BYTES - 100))

    append_summary(REGRESSION, github(summary))

    assert summary.stat().st_size == LIMIT_BYTES - 100


def test_what_is_no_file_stops_nothing(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    for path in (pipe, tmp_path, tmp_path / "missing", Path("/dev/full"), Path("a\0b")):
        append_summary(REGRESSION, github(path))

    assert not (tmp_path / "missing").exists()


def test_a_command_appends_its_own_report_without_secrets(
    summary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdefghij")
    for name, value in github(summary).items():
        monkeypatch.setenv(name, value)
    outcome = Outcome(verdict=Verdict.FAILED, summary="refused: hf_0123456789abcdefghij")

    code = Session(Invocation.begin(["launch"])).finish(outcome)

    assert code == 1
    text = summary.read_text()
    assert "**✗ FAILED** `launch`" in text
    assert "hf_0123456789abcdefghij" not in text
    assert "refused" in capsys.readouterr().err


def test_a_pipe_in_the_place_of_a_report_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report.json")

    with pytest.raises(UsageError, match=r"report\.json: .*no regular file"):
        read_reports([tmp_path])
