# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run -- CMD` becomes CMD: environment, status, signals and streams are CMD's own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Ran, doctor, environment, words

pytestmark = pytest.mark.integration

PYPROJECT = '[project]\nname = "pkg"\nversion = "1.0"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text(PYPROJECT)
    return root


def python(project: Path, program: str, *arguments: str, options: tuple[str, ...] = ()) -> Ran:
    return doctor("run", *options, "--", sys.executable, "-c", program, *arguments, cwd=project)


def test_the_command_has_its_own_words_stdin_and_environment_and_no_file_of_ours(
    project: Path,
) -> None:
    program = (
        "import json, os, sys; print(json.dumps({'pid': os.getpid(), 'words': sys.argv[1:], "
        "'stdin': sys.stdin.read(), 'cublas': os.environ['CUBLAS_WORKSPACE_CONFIG'], "
        "'files': sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1]}))"
    )
    own = ["--json", "--", "--dry-run", "--help", "-h"]
    with subprocess.Popen(
        words("run", "--", sys.executable, "-c", program, *own),
        cwd=project,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        out, err = process.communicate(b"a\0b\n")
    assert json.loads(out) == {
        "pid": process.pid,
        "words": own,
        "stdin": "a\0b\n",
        "cublas": ":4096:8",
        "files": [0, 1, 2],
    }
    assert b"CUBLAS_WORKSPACE_CONFIG" in err


@pytest.mark.parametrize("profile", ["default", "off"])
@pytest.mark.gate(1)
def test_a_job_without_a_python_project_is_prepared_too(profile: str, tmp_path: Path) -> None:
    program = "import os; print(os.environ['CI_DOCTOR_PREPARED'], os.environ.get('OMP_DYNAMIC'))"
    options = ("--determinism", profile, "--report-dir", str(tmp_path / "report"))
    ran = python(tmp_path, program, options=options)

    expected = "FALSE" if profile == "default" else "None"
    assert (ran.code, ran.out.split()[1]) == (0, expected), ran
    assert "setup-env/no-project" in (tmp_path / "report" / "report.json").read_text()


def test_a_preparation_that_passed_is_one_sentence_above_the_command(tmp_path: Path) -> None:
    ran = doctor("run", "--", "sh", "-c", "echo its own verdict >&2; exit 3", cwd=tmp_path)

    assert ran.err.startswith("ci-doctor: prepared: "), ran
    assert ran.err.endswith("shows why)\nits own verdict\n"), ran
    assert len(ran.err.splitlines()) <= 4, ran


@pytest.mark.parametrize("status", [0, 1, 3, 70, 75, 255])
@pytest.mark.gate(1)
def test_the_status_is_the_commands(project: Path, status: int) -> None:
    assert python(project, f"raise SystemExit({status})").code == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGPIPE])
@pytest.mark.gate(1)
def test_a_signal_ends_the_command_as_it_would_without_us(
    project: Path, number: signal.Signals
) -> None:
    ran = doctor("run", "--", "sh", "-c", f"kill -{int(number)} $$", cwd=project)
    assert ran.code == -number, ran


def test_no_signal_is_ignored_or_blocked_that_was_not_before(project: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc")
    ran = doctor("run", "--", "cat", "/proc/self/status", cwd=project)
    directly = subprocess.run(
        ["cat", "/proc/self/status"], capture_output=True, text=True, check=True
    ).stdout
    assert signals(ran.out) == signals(directly), ran


def signals(status: str) -> list[str]:
    return [line for line in status.splitlines() if line.startswith(("SigIgn", "SigBlk", "SigCgt"))]


def test_a_signal_that_was_ignored_before_stays_so(project: Path) -> None:
    line = " ".join(words("run", "--", "sh", "-c", "'kill -TERM $$; echo alive'"))
    ended = subprocess.run(
        ["sh", "-c", f"trap '' TERM; {line}"],
        cwd=project,
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert ended.stdout == b"alive\n"


def test_without_the_two_dashes_it_asks_for_them(project: Path) -> None:
    ran = doctor("run", "--determinism", "off", "pytest", "--verbose", cwd=project)
    assert ran.code == 2, ran
    assert "ci-doctor run --determinism off -- pytest --verbose" in ran.err, ran


@pytest.mark.parametrize("arguments", [["--"], []])
@pytest.mark.gate(1)
def test_without_a_command_it_is_a_usage_error(project: Path, arguments: list[str]) -> None:
    assert doctor("run", *arguments, cwd=project).code == 2


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("no-such-command", 127, "no-such-command: command not found"),
        ("", 127, "command not found"),
        ("./text", 126, ""),
    ],
)
@pytest.mark.gate(1)
def test_a_command_that_cannot_be_run_ends_as_in_a_shell(
    project: Path, command: str, status: int, said: str
) -> None:
    (project / "text").write_text("text\n")
    (project / "text").chmod(0o644)
    ran = doctor("run", "--", command, cwd=project)
    assert ran.code == status, ran
    assert said in ran.err, ran


@pytest.mark.parametrize("named", ["gone", ".."])
@pytest.mark.gate(1)
def test_where_the_environment_cannot_be_prepared_nothing_runs(project: Path, named: str) -> None:
    ran = doctor("run", "--project", named, "--", "touch", "ran", cwd=project)
    assert (ran.code, ran.out) == (2, ""), ran
    assert not (project / "ran").exists()


def test_the_help_says_that_json_belongs_to_a_dry_run(project: Path) -> None:
    said = doctor("run", "--help", cwd=project).out
    assert "With --dry-run: print the report as JSON" in " ".join(said.split())


def test_the_path_that_counts_is_the_jobs(project: Path, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "tool").chmod(0o755)
    assert shutil.which("tool") is None
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert doctor("run", "--", "tool", cwd=project, env={"PATH": path}).out == "mine\n"
