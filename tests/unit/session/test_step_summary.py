# SPDX-License-Identifier: Apache-2.0
"""What ci-doctor leaves in `$GITHUB_STEP_SUMMARY`, and that nothing there changes a result."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.model.outcome import Outcome
from ci_doctor.model.verdict import Verdict
from ci_doctor.session.delivery import LIMIT_BYTES, append_summary
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session
from tests.support.builders import a_report, sample_reports

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
