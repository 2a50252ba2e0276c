# SPDX-License-Identifier: Apache-2.0
"""The composite action: what it installs, prepares and runs, and how its steps end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.github_machine import ROOT, machine, write_ci_doctor
from tests.support.github_runner import Runner
from tests.support.wheels import build_wheel

pytestmark = pytest.mark.integration
FILE = ROOT / "action.yml"
PROGRAMS = Path(sys.executable).parent
SMALL_PROJECT = """
[build-system]
requires = ["setuptools", "setuptools-scm"]
build-backend = "setuptools.build_meta"
[project]
name = "ci-doctor-toolkit"
dynamic = ["version"]
[project.optional-dependencies]
more = ["other"]
[project.scripts]
ci-doctor = "ci_doctor:main"
[tool.setuptools]
packages = ["ci_doctor"]
[tool.setuptools_scm]
version_file = "ci_doctor/_version.py"
fallback_version = "0.1.0.dev0"
"""
SMALL_PROGRAM = """
def main():
    from ci_doctor._version import version
    print("ci-doctor", version)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "work space"
    workspace.mkdir()
    return workspace


@pytest.fixture
def runner(tmp_path: Path, workspace: Path) -> Runner:
    return machine(tmp_path / "machine", workspace)


@pytest.fixture
def program(tmp_path: Path) -> str:
    return str(write_ci_doctor(tmp_path / "programs" / "ci-doctor"))


def steps() -> list[dict[str, Any]]:
    action = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return list(action["runs"]["steps"])


def test_no_expression_stands_in_a_script() -> None:
    """An input pasted into a script is code: https://docs.github.com/en/actions/reference/security/secure-use."""
    assert steps()
    for step in steps():
        assert "${{" not in step["run"], step["name"]


def test_the_action_is_valid_and_its_scripts_are_clean(tmp_path: Path) -> None:
    schema = [
        f"{PROGRAMS}/check-jsonschema",
        "--builtin-schema",
        "vendor.github-actions",
        str(FILE),
    ]
    subprocess.run(schema, check=True, capture_output=True)
    for step in steps():
        script = tmp_path / f"{step.get('id', 'diagnose')}.sh"
        script.write_text(step["run"])
        subprocess.run([f"{PROGRAMS}/shellcheck", "--shell=bash", str(script)], check=True)


def test_later_steps_find_ci_doctor_its_variables_and_its_report_directory(
    runner: Runner, program: str, workspace: Path
) -> None:
    ran = runner.run_action(ROOT, {"executable": program, "determinism": "default"})

    assert ran.result == "success", ran.log
    assert ran.outputs == {
        "exit-code": "",
        "report-dir": str(workspace / "ci-doctor-report"),
    }
    later = runner.run_job(
        {"steps": [{"run": "ci-doctor explain 75 >/dev/null; env", "shell": "bash"}]}, {}, {}
    )
    assert "CUBLAS_WORKSPACE_CONFIG=:4096:8" in later.log
    assert (workspace / "ci-doctor-report" / "explain" / "report.json").exists()


def test_the_exit_code_is_the_commands_own_and_the_cause_is_an_annotation(
    runner: Runner, program: str, workspace: Path
) -> None:
    inputs = {
        "executable": program,
        "setup-env": "false",
        "command": "echo 'OSError: [Errno 28] No space left on device' | tee server.log\nexit 3",
        "diagnose": "logs/*.log\n*.log",
    }
    (workspace / "logs").mkdir()
    (workspace / "logs" / "client.log").write_text("all is well\n")

    ran = runner.run_action(ROOT, inputs)

    assert (ran.result, ran.outputs["exit-code"]) == ("failure", "3"), ran.log
    assert "##[error]Process completed with exit code 3." in ran.log
    report = json.loads((workspace / "ci-doctor-report/diagnose/report.json").read_text())
    assert report["findings"][0]["rule"] == "diagnose/disk", ran.log
    assert "::error title=✗ ci-doctor diagnose,file=server.log,line=1,endLine=1::" in ran.log
    assert "A program reports that a disk is full" in ran.summary


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        # As in a step of a workflow: bash -eo pipefail.
        pytest.param(
            {"setup-env": "false", "command": "false | cat\necho went on"}, "1", id="in the middle"
        ),
        pytest.param({"projects": "not-there"}, "2", id="the preparation"),
        pytest.param({"executable": "env"}, "2", id="a program of another name"),
    ],
)
def test_where_something_fails_nothing_goes_on(
    runner: Runner, program: str, inputs: dict[str, str], code: str
) -> None:
    ran = runner.run_action(ROOT, {"executable": program, "command": "echo went on", **inputs})

    assert (ran.result, ran.outputs["exit-code"]) == ("failure", code), ran.log
    assert "went on" not in ran.log


def test_an_input_is_no_code(runner: Runner, program: str, workspace: Path) -> None:
    ran = runner.run_action(
        ROOT,
        {
            "executable": program,
            "determinism": "$(touch made)`touch made`",
            "projects": '"; touch made',
        },
    )

    assert (ran.result, ran.outputs["exit-code"]) == ("failure", "2"), ran.log
    assert list(workspace.rglob("made")) == []


# Written apart: no file of ours may lead to it (tests/unit/model/test_distribution.py).
OTHER_PROJECT = "ci-doctor"


REFUSED = (
    *("ci-doctor", f"{OTHER_PROJECT}==1.0"),
    *("ci-doctor-toolkit", "ci-doctor-toolkit>=1", "git+https://x"),
)


@pytest.mark.parametrize("requirement", REFUSED)
def test_another_project_and_an_unpinned_version_are_refused(
    runner: Runner, requirement: str
) -> None:
    ran = runner.run_action(ROOT, {"install": requirement, "command": "echo went on"})

    assert (ran.result, ran.outputs["exit-code"]) == ("failure", "2"), ran.log
    assert "::error title=ci-doctor::The input 'install'" in ran.log
    assert "went on" not in ran.log


@pytest.mark.nightly
def test_the_actions_own_files_are_installed_with_the_version_of_their_tag(
    tmp_path: Path, workspace: Path
) -> None:
    """With real pip and setuptools-scm, without an index: the build tools are on PYTHONPATH.

    The workspace is the directory of the step: its pip.py must not run in place of pip.

    A project of one module stands for ours, and virtualenv for `python -m venv`, because they take a fifth of the time.
    tests/integration/test_packaging.py builds ours.
    """
    action = tmp_path / "the action"
    (action / "ci_doctor").mkdir(parents=True)
    (action / "action.yml").write_bytes(FILE.read_bytes())
    (action / "pyproject.toml").write_text(SMALL_PROJECT)
    (action / "ci_doctor" / "__init__.py").write_text(SMALL_PROGRAM)
    build_wheel(tmp_path / "index", "other", "1.0", {})
    (workspace / "pip.py").write_text("raise SystemExit('the pip.py of the workspace')\n")
    python = tmp_path / "python3"
    python.write_text(
        f'#!/bin/sh\n[ "$2" = -m ] || exec {sys.executable} "$@"\n'
        f'shift 3\nexec {sys.executable} -m virtualenv -q "$@"\n'
    )
    python.chmod(0o755)
    runner = machine(
        tmp_path / "machine",
        workspace,
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(tmp_path / "index"),
        PIP_NO_BUILD_ISOLATION="0",
        PYTHONPATH=str(Path(pytest.__file__).parents[1]),
    )
    inputs = {"python": str(python), "setup-env": "false", "command": "ci-doctor --version"}

    ran = runner.run_action(action, {**inputs, "extras": "more"})
    (runner.temporary / "ci-doctor/venv/of-the-first").touch()
    again = runner.run_action(action, {**inputs, "extras": "more"})

    assert ran.result == "success", ran.log
    program = runner.temporary / "ci-doctor/venv/bin/ci-doctor"
    assert f"ci-doctor 1.2.3 ({program})" in ran.log
    assert again.result == "success", again.log
    assert (runner.temporary / "ci-doctor/venv/of-the-first").exists(), "it was not made anew"


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        # No disk, no ensurepip.
        pytest.param(
            "case $* in *'import sys'*) exit 0 ;; esac; exit 1",
            "75",
            "::error title=ci-doctor::The virtual environment could not be made.",
            id="that makes no environment",
        ),
        pytest.param(
            "exit 1", "2", "Put actions/setup-python before this step.", id="that is too old"
        ),
    ],
)
def test_with_a_python_nothing_runs(
    tmp_path: Path, workspace: Path, script: str, code: str, said: str
) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    runner = machine(tmp_path / "machine", workspace)

    ran = runner.run_action(ROOT, {"python": str(python), "command": "echo went on"})

    assert (ran.result, ran.outputs["exit-code"]) == ("failure", code), ran.log
    assert said in ran.log
    assert "went on" not in ran.log


@pytest.mark.parametrize("pause", ["", "sleep 1\n"], ids=["at once", "a slow shell"])
def test_a_cancellation_reaches_the_whole_command(tmp_path: Path, pause: str) -> None:
    """GitHub sends SIGINT to the step's shell, and to nothing else.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-cancellation
    """
    script = tmp_path / "run.sh"
    lines = next(step["run"] for step in steps() if step.get("id") == "run")
    script.write_text(lines.replace("set +m\n", f"set +m\n{pause}"))
    started = tmp_path / "started"
    os.mkfifo(started)
    # The child itself is ready: between its fork and its exec a signal would be lost to it.
    command = (
        "trap 'echo the command was stopped; exit 143' TERM\n"
        f"sh -c 'echo ready > \"{started}\"; exec sleep 600' &\nwait"
    )
    output = tmp_path / "output"
    step = subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        env={
            "PATH": os.environ["PATH"],
            "CI_DOCTOR_ACTION_COMMAND": command,
            "GITHUB_OUTPUT": str(output),
        },
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert started.read_text() == "ready\n"

    step.send_signal(signal.SIGINT)
    log, _ = step.communicate(timeout=60)

    assert b"the command was stopped" in log
    assert (step.returncode, output.read_text()) == (143, "exit-code=143\n")
