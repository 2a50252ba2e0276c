# SPDX-License-Identifier: Apache-2.0
import shlex
from pathlib import Path

import pytest

from ci_doctor.commands.invocation import Invocation
from ci_doctor.model.verdict import Verdict


def typed(line: str) -> Invocation:
    return Invocation.begin(shlex.split(line))


@pytest.mark.parametrize(
    ("line", "command", "own"),
    [
        ("", "", ""),
        ("--version", "", "--version"),
        ("setup-env --json", "setup-env", "setup-env --json"),
        ("run --json -- python -m x --json -- y", "run", "run --json"),
        ("-- setup-env", "", ""),
    ],
)
def test_what_is_ours_stands_before_the_dashes(line: str, command: str, own: str) -> None:
    assert (typed(line).command, typed(line).own_argv) == (command, tuple(own.split()))


def test_json_of_the_command_is_not_ours() -> None:
    assert typed("run --json -- x").wants_json
    assert not typed("run -- x --json").wants_json
    assert typed("setup-env --dry-run").is_dry_run
    assert not typed("run -- x --dry-run").is_dry_run


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("x --output a", "a"),
        ("x --output=a", "a"),
        ("x --output a --output=b", "b"),
        ("x --output=", ""),
        ("x --output", None),
        ("x", None),
        ("x -- --output a", None),
        ("x --outputs a", None),
    ],
)
def test_an_option_is_found_without_parsing(line: str, value: str | None) -> None:
    assert typed(line).option("--output") == value


class TestReportDirectory:
    def test_is_what_was_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", "/srv")
        assert typed("setup-env --report-dir r").report_directory == Path("r")

    def test_is_else_a_fresh_folder_in_the_jobs(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path))
        for name in ("run", "run-2", "run-3"):
            directory = typed("run -- x").report_directory
            assert directory == tmp_path / name
            directory.mkdir()
            (directory / "report.json").write_text("{}")

    @pytest.mark.parametrize("line", ["", "../up", "/abs", "a/b", ".", ".."])
    def test_is_none_for_what_is_no_command(
        self, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path))
        assert typed(line).report_directory is None

    def test_is_none_where_nothing_is_said(self) -> None:
        assert typed("setup-env").report_directory is None


def test_a_report_says_what_reproduces_it() -> None:
    report = typed("setup-env --project 'a b'").report(
        verdict=Verdict.PASS, exit_code=0, summary="s"
    )
    assert report.reproduce == "ci-doctor setup-env --project 'a b'"
    assert report.command == "setup-env"
    assert report.duration_s >= 0
    assert (
        typed("x").report(verdict=Verdict.PASS, exit_code=0, summary="s", reproduce="y").reproduce
        == "y"
    )
