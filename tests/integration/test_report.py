"""Written reports are shown again in any form, or published on Buildkite, whatever they say."""

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.commands.report import open_page
from ci_doctor.errors import UsageError
from tests.support import stand_in_agent
from tests.support.cli import environment, inside, words

pytestmark = pytest.mark.integration


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder that holds the reports of two commands of one job."""
    for word, folder in (("75", "reports/explain"), ("nonsense", "reports/explain-2")):
        inside("explain", word, "--report-dir", folder, cwd=tmp_path)
    return tmp_path / "reports"


def test_reports_are_shown_oldest_first(written: Path) -> None:
    ran = inside("report", written, cwd=written)

    assert ran.code == 0, ran
    assert ran.out.index("75:") < ran.out.index("nonsense")


@pytest.mark.parametrize(
    ("form", "begins"), [("markdown", "`explain`"), ("junit", "<?xml"), ("json", "{")]
)
@pytest.mark.gate(1)
def test_a_report_is_shown_in_each_form(written: Path, form: str, begins: str) -> None:
    ran = inside("report", written / "explain", "--format", form, cwd=written)

    assert (ran.code, ran.out.startswith(begins)) == (0, True), ran


def test_a_folder_without_a_report_and_a_broken_report_are_usage_errors(written: Path) -> None:
    (written / "empty").mkdir()
    (written / "explain" / "report.json").write_text("{")

    for folder in ("empty", "explain"):
        ran = inside("report", folder, cwd=written)
        assert ran.code == 2, ran
        assert "hint:" in ran.err


def test_the_newest_report_here_is_shown_where_a_browser_is(tmp_path: Path) -> None:
    for word, folder in (("75", "ci-doctor-report"), ("86", "ci-doctor-report-2")):
        inside("explain", word, "--report-dir", folder, cwd=tmp_path)
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "$@" > shown\n')
    browser.chmod(0o755)

    ran = inside("report", "--open", cwd=tmp_path, env={"BROWSER": f"nope:{browser} --new '%s' &"})

    assert (ran.code, ran.out) == (0, "opened ci-doctor-report-2/report.html\n"), ran
    page = tmp_path / "ci-doctor-report-2" / "report.html"
    assert (tmp_path / "shown").read_text() == f"--new {page.as_uri()}\n"
    # The one that was asked for, even if it has no page yet.
    named = inside("report", "--open", "ci-doctor-report", cwd=tmp_path, env={"BROWSER": "true"})
    assert named.out == "opened ci-doctor-report/report.html\n"
    # Text, and where it lies.
    shown = inside("report", "ci-doctor-report/report.json", cwd=tmp_path)
    assert shown.out.endswith("\nreport: ci-doctor-report/report.html\n"), shown


def test_the_newest_of_several_below_a_folder_is_shown(tmp_path: Path) -> None:
    for folder in ("a", "kept/one", "kept/two"):
        inside("explain", "75", "--report-dir", folder, cwd=tmp_path)
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "report.json").write_text("{}")

    ran = inside("report", "--open", cwd=tmp_path, env={"BROWSER": "true"})

    assert (ran.code, ran.out) == (0, "opened kept/two/report.html\n"), ran


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({}, "there is no display here"),
        ({"DISPLAY": ":9"}, "no browser is on PATH"),
        ({"BROWSER": "'half a quote", "WAYLAND_DISPLAY": "w"}, "no browser is on PATH"),
        ({"BROWSER": "false"}, "false ended with 1"),
        ({"BROWSER": "not-a-program"}, "not-a-program: Exec format error"),
    ],
)
def test_a_page_that_nothing_can_show_is_said_with_what_to_do(
    tmp_path: Path, env: dict[str, str], why: str
) -> None:
    (tmp_path / "not-a-program").write_text("")
    (tmp_path / "not-a-program").chmod(0o755)
    (tmp_path / "false").symlink_to("/bin/false")

    with pytest.raises(UsageError, match=why) as raised:
        open_page(tmp_path / "report.html", {**env, "PATH": str(tmp_path)})

    assert "copy the file to a machine with a browser" in (raised.value.hint or "")


def test_a_browser_that_stays_open_holds_nobody_up(tmp_path: Path) -> None:
    stays = tmp_path / "stays"
    stays.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    stays.chmod(0o755)

    open_page(tmp_path / "report.html", {"BROWSER": str(stays)}, refuses_within_s=0.5)

    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("words_", [("--open",), ("--publish",), ("one", "--publish", "--open")])
def test_what_report_cannot_know_is_asked_for(tmp_path: Path, words_: tuple[str, ...]) -> None:
    ran = inside("report", *words_, cwd=tmp_path)

    assert (ran.code, "hint: name" in ran.err) == (2, True), ran


def test_publishing_outside_a_job_says_so_and_changes_nothing(written: Path) -> None:
    ran = inside("report", written, "--publish", cwd=written)

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

    ran = inside("report", written, "--publish", cwd=tmp_path, env=job)

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
    ran = inside("report", written / "explain", "--json", cwd=written)

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

    ran = inside("explain", "75", "--report-dir", "", cwd=tmp_path)

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

    ran = inside("setup-env", "--report-dir", "r", cwd=tmp_path)

    everything = ran.out + ran.err
    for path in (tmp_path / "r").iterdir():
        everything += path.read_text()
    assert token not in everything
    assert "fix/[redacted]" in everything, everything


def test_a_pipe_with_the_name_of_a_report_is_passed_over_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other" / "report.json")

    ran = inside("report", cwd=tmp_path)

    assert (ran.code, "no report lies here" in ran.err) == (2, True)
