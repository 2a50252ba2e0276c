"""Written reports are shown again in any form, or published on Buildkite, whatever they say."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import stand_in_agent
from tests.support.cli import doctor, environment, words

pytestmark = pytest.mark.integration


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder that holds the reports of two commands of one job."""
    for word, folder in (("75", "reports/explain"), ("nonsense", "reports/explain-2")):
        doctor("explain", word, "--report-dir", folder, cwd=tmp_path)
    return tmp_path / "reports"


def test_reports_are_shown_oldest_first(written: Path) -> None:
    ran = doctor("report", written, cwd=written)

    assert ran.code == 0, ran
    assert ran.out.index("75:") < ran.out.index("nonsense")


@pytest.mark.parametrize(
    ("form", "begins"), [("markdown", "`explain`"), ("junit", "<?xml"), ("json", "{")]
)
@pytest.mark.gate(1)
def test_a_report_is_shown_in_each_form(written: Path, form: str, begins: str) -> None:
    ran = doctor("report", written / "explain", "--format", form, cwd=written)

    assert (ran.code, ran.out.startswith(begins)) == (0, True), ran


def test_a_folder_without_a_report_and_a_broken_report_are_usage_errors(written: Path) -> None:
    (written / "empty").mkdir()
    (written / "explain" / "report.json").write_text("{")

    for folder in ("empty", "explain"):
        ran = doctor("report", folder, cwd=written)
        assert ran.code == 2, ran
        assert "hint:" in ran.err


def test_publishing_outside_a_job_says_so_and_changes_nothing(written: Path) -> None:
    ran = doctor("report", written, "--publish", cwd=written)

    assert (ran.code, ran.out) == (0, ""), ran
    assert "nothing is published" in ran.err


def test_publishing_in_a_job_annotates_and_a_broken_report_holds_up_no_other(
    written: Path, tmp_path: Path
) -> None:
    stand_in_agent.install(tmp_path / "agent", tmp_path / "agent.jsonl")
    (written / "explain-2" / "report.json").write_text("{")
    job = {
        "BUILDKITE": "true",
        "BUILDKITE_JOB_ID": "0190c-1",
        "BUILDKITE_STEP_KEY": "words",
        "PATH": f"{tmp_path / 'agent'}:{os.environ['PATH']}",
    }

    ran = doctor("report", written, "--publish", cwd=tmp_path, env=job)

    assert ran.code == 0, ran
    assert "explain-2/report.json is not published" in ran.err
    annotated = [
        call
        for call in stand_in_agent.calls(tmp_path / "agent.jsonl")
        if _argv(call)[0] == "annotate"
    ]
    assert ["75" in str(call["stdin"]) for call in annotated if "--help" not in _argv(call)] == [
        True
    ]


def _argv(call: dict[str, Any]) -> list[str]:
    return [str(word) for word in call["argv"]]


def test_json_of_the_command_line_is_the_report_as_it_was_written(written: Path) -> None:
    ran = doctor("report", written / "explain", "--json", cwd=written)

    assert json.loads(ran.out) == json.loads((written / "explain" / "report.json").read_text())


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_closed_stdout_is_no_bug(written: Path, form: str) -> None:
    command = f"{shlex.join(words('report', 'reports', '--format', form))} >&-"

    ran = subprocess.run(
        ["sh", "-c", command],
        cwd=written.parent,
        env=environment(),
        capture_output=True,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, b"")


def test_an_empty_report_directory_is_none(tmp_path: Path) -> None:
    for name in ("report.md", "report.html", "junit.xml"):
        (tmp_path / name).write_text("mine")

    ran = doctor("explain", "75", "--report-dir", "", cwd=tmp_path)

    assert ran.code == 0, ran
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "report.md": "mine",
        "report.html": "mine",
        "junit.xml": "mine",
    }


def test_a_token_in_the_name_of_a_tag_reaches_no_output(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools-scm"]\n'
        'build-backend = "setuptools.build_meta"\n'
        '[project]\nname = "p"\ndynamic = ["version"]\n[tool.setuptools_scm]\n'
    )
    for words_ in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", token],
        ["tag", "v1.0"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["tag", f"v-{token}"],
        ["tag", token],
        ["checkout", "-q", "-b", f"fix/{token}"],
    ):
        subprocess.run(["git", *words_], cwd=tmp_path, check=True)

    ran = doctor("setup-env", "--report-dir", "r", cwd=tmp_path)

    everything = ran.out + ran.err
    for path in (tmp_path / "r").iterdir():
        everything += path.read_text()
    assert token not in everything
    assert "fix/[redacted]" in everything, everything
