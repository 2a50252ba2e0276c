# SPDX-License-Identifier: Apache-2.0
"""What stands open in the log of a CI when a job fails, by real commands on one pipe, as an agent gives them."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.ci_log_readers import buildkite_headers, github_commands, gitlab_sections
from tests.support.cli import environment, words

pytestmark = pytest.mark.integration

CLIENT = ("sh", "-c", "echo assert 1 == $((1 + 1)); exit 3")


def log_of(*arguments: str, cwd: Path, env: Mapping[str, str]) -> str:
    """The log of a job whose stdout and stderr are one pipe."""
    ran = subprocess.run(
        words(*arguments),
        cwd=cwd,
        env=environment({"CI": "true", **env}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return ran.stdout.decode()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "ci-doctor.toml").write_text(
        '[services.vllm]\ncommand = ["sh", "-c", "echo is ready; exec sleep 60"]\nready = "log:is ready"\n'
    )
    return tmp_path


def test_on_buildkite_the_failed_client_and_the_report_are_open(job: Path) -> None:
    log = log_of("launch", "--", *CLIENT, cwd=job, env={"BUILDKITE": "true"})

    headers = buildkite_headers(log)
    assert [mark for mark, _ in headers] == ["---", "---", "^^^ +++", "+++"]
    assert headers[0][1] == "ci-doctor launch: services"
    assert headers[1][1].startswith("running sh -c")
    assert headers[3][1] == "✗ FAILED  ci-doctor launch"
    assert log.index("assert 1 == 2") > log.index("--- running")


def test_on_github_the_services_are_folded_and_the_error_is_an_annotation(job: Path) -> None:
    summary = job / "summary.md"
    summary.touch()
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}

    log = log_of("launch", "--", *CLIENT, cwd=job, env=env)

    names = [command.name for command in github_commands(log)]
    assert names[:3] == ["group", "endgroup", "stop-commands"]
    assert set(names[3:]) == {"error"}
    assert log.index("::endgroup::") < log.index("assert 1 == 2")
    assert "**✗ FAILED** `launch`" in summary.read_text()


def test_on_gitlab_the_report_that_failed_is_expanded(job: Path) -> None:
    log = log_of("launch", "--", *CLIENT, cwd=job, env={"GITLAB_CI": "true"})

    services, end, report, last = gitlab_sections(log)
    assert (services[2], report[2]) == ("[collapsed=true]", "")
    assert (services[1], report[1]) == (end[1], last[1])


def test_run_stays_transparent(tmp_path: Path) -> None:
    bare = log_of("run", "--", "echo", "--- mine", cwd=tmp_path, env={})
    for variable in ("BUILDKITE", "GITHUB_ACTIONS", "GITLAB_CI"):
        log = log_of("run", "--", "echo", "--- mine", cwd=tmp_path, env={variable: "true"})

        assert without_times(log) == without_times(bare), variable
        assert log.endswith("--- mine\n"), variable


def without_times(log: str) -> list[str]:
    """The lines of `log`, without the one that says how long it took."""
    return [line for line in log.splitlines() if "PASS  run" not in line]


def test_a_failed_command_under_run_is_followed_by_an_open_diagnosis(tmp_path: Path) -> None:
    script = "echo 'OSError: [Errno 28] No space left on device'; exit 3"
    env = {"BUILDKITE": "true"}

    log = log_of("run", "--diagnose", "--", "sh", "-c", script, cwd=tmp_path, env=env)

    assert [mark for mark, _ in buildkite_headers(log)] == ["+++"]
    assert log.index("[Errno 28]") < log.index("+++ ")


def test_the_name_of_a_missing_command_begins_no_group_and_is_no_workflow_command(
    tmp_path: Path,
) -> None:
    log = log_of("run", "--", "x\n--- acts", cwd=tmp_path, env={"BUILDKITE": "true"})

    assert " --- acts: command not found" in log
    assert "acts" not in "".join(title for _, title in buildkite_headers(log))

    log = log_of("run", "--", "x\n::error::acts", cwd=tmp_path, env={"GITHUB_ACTIONS": "true"})

    assert "::error::acts: command not found" in log
    assert "acts: command not found" not in [command.data for command in github_commands(log)]
