# SPDX-License-Identifier: Apache-2.0
"""Calls of a stand-in agent that refuses what the real one refuses."""

import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.buildkite.agent import Agent, AgentResult
from tests.support import stand_in_agent

JOB = {"BUILDKITE": "true", "BUILDKITE_JOB_ID": "j1"}
NASTY = {
    "QUOTES": 'it\'s "so"',
    "LINES": "a\nb\n",
    "DOLLAR": "$HOME `id` \\",
    "EMPTY": "",
    "UNICODE": "größe 🩺",
}


def agent_in(
    tmp_path: Path, *, version: str = "3.110.0", failing: str | None = None, job_api: bool = True
) -> Agent:
    executable = stand_in_agent.install(
        tmp_path / "bin", tmp_path / "log", version=version, failing=failing
    )
    environ = {
        **os.environ,
        "BUILDKITE_AGENT_JOB_API_SOCKET": str(tmp_path / "socket") if job_api else "",
    }
    return Agent(str(executable), environ)


def test_a_full_disk_does_not_keep_the_agent_from_telling_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # tempfile, too, fails if no directory can take a file.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))

    result = agent_in(tmp_path).annotate("No space left", style="error", context="c")

    assert result.ok, result.message
    assert only_call(tmp_path)["body"] == "No space left"


def only_call(tmp_path: Path) -> dict[str, Any]:
    (call,) = stand_in_agent.calls(tmp_path / "log")
    return call


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "buildkite-agent"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def has_ended(pid: int) -> bool:
    """Whether a process is gone or a zombie, within 10 s: SIGKILL is on its way when its sender goes on."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 10)[0])
    finally:
        os.close(handle)


def test_the_agent_is_found_on_the_path_of_a_job(tmp_path: Path) -> None:
    stand_in_agent.install(tmp_path, tmp_path / "log")

    assert Agent.find({**JOB, "PATH": str(tmp_path)}) is not None
    assert Agent.find({**JOB, "PATH": "/nonexistent"}) is None
    assert Agent.find(JOB) is None


@pytest.mark.parametrize("missing", list(JOB))
def test_outside_a_job_there_is_no_agent(tmp_path: Path, missing: str) -> None:
    stand_in_agent.install(tmp_path, tmp_path / "log")

    assert Agent.find({**JOB, "PATH": str(tmp_path), missing: ""}) is None


def test_an_annotation_larger_than_an_argument_may_be_goes_through(tmp_path: Path) -> None:
    body = "größe 🩺 " * 50_000

    result = agent_in(tmp_path).annotate(body, style="error", context="ci-doctor:e2e:run")

    assert result.ok
    assert only_call(tmp_path)["body"] == body


@pytest.mark.parametrize(("version", "sent"), [("3.64.0", None), ("3.65.0", "9"), ("4.0.0", "9")])
def test_a_priority_is_sent_only_to_agents_that_know_it(
    tmp_path: Path, version: str, sent: str | None
) -> None:
    result = agent_in(tmp_path, version=version).annotate(
        "b", style="info", context="c", priority=9
    )

    assert result.ok
    assert only_call(tmp_path)["flags"].get("--priority") == sent


def test_a_body_that_the_agent_refuses_is_an_answer_and_no_exception(tmp_path: Path) -> None:
    result = agent_in(tmp_path).annotate("x" * (1024 * 1024 + 1), style="info", context="c")

    assert not result.ok
    assert result.message.startswith(
        "buildkite-agent annotate failed with status 1: fatal: annotation body size"
    )


def test_meta_data_keeps_a_value_that_looks_like_a_flag(tmp_path: Path) -> None:
    assert agent_in(tmp_path).set_metadata("ci-doctor:e2e:verdict", "--job").ok
    assert only_call(tmp_path)["value"] == "--job"


@pytest.mark.parametrize("version", ["3.0.0", "3.110.0", "4.0.0"])
def test_meta_data_is_read_with_and_without_a_line_end(version: str, tmp_path: Path) -> None:
    agent = agent_in(tmp_path, version=version)
    agent.set_metadata("k", '{"a":1}')

    assert agent.get_metadata("k", default="{}")[0] == '{"a":1}'
    assert agent.get_metadata("other", default="{}") == (
        "{}",
        AgentResult(ok=True, message="meta-data other read"),
    )


def test_an_answer_that_is_no_meta_data_is_not_taken_for_none(tmp_path: Path) -> None:
    for text in ("true", "echo junk", "exit 1"):
        value, result = Agent(script(tmp_path, text), JOB).get_metadata("k", default="{}")

        assert value == "{}"
        assert not result.ok


@pytest.mark.parametrize(
    "variables",
    # Of many, no line is longer than the agent reads.
    [NASTY, {f"V{number}": "x" * 1000 for number in range(200)}],
    ids=["nasty", "many"],
)
def test_variables_reach_the_job_whatever_their_values_hold(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    result = agent_in(tmp_path).set_environment(variables)

    assert result is not None
    assert result.ok
    assert only_call(tmp_path)["environment"] == variables


def test_a_value_beyond_the_agents_line_limit_is_a_failure_and_not_a_loss(tmp_path: Path) -> None:
    result = agent_in(tmp_path).set_environment({"V": "x" * 70_000})

    assert result is not None
    assert not result.ok
    assert "token too long" in result.message
    # Bytes that are no UTF-8 are refused, and not replaced.
    refused = agent_in(tmp_path).set_environment({"V": os.fsdecode(b"\xff")})
    assert refused is not None
    assert not refused.ok


def test_nothing_is_tried_without_a_job_api_or_an_agent_that_has_env_set(tmp_path: Path) -> None:
    assert agent_in(tmp_path, job_api=False).set_environment(NASTY) is None
    assert agent_in(tmp_path, version="3.44.0").set_environment(NASTY) is None
    assert agent_in(tmp_path).set_environment({}) is None
    assert stand_in_agent.calls(tmp_path / "log") == []


def test_an_agent_that_hangs_is_not_taken_for_one_without_env_set(tmp_path: Path) -> None:
    environ = {**JOB, "BUILDKITE_AGENT_JOB_API_SOCKET": "socket", "PATH": os.environ["PATH"]}
    agent = Agent(script(tmp_path, "exec sleep 600"), environ, call_timeout_s=0.2)

    result = agent.set_environment({"A": "1"})

    assert result is not None
    assert "env set did not end" in result.message


def test_artifacts_keep_their_paths_below_the_directory(tmp_path: Path) -> None:
    names = ["a/x.log", "a/odd [1]{2};*?.log"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    result = agent_in(tmp_path).upload_artifacts([tmp_path / name for name in names], tmp_path)

    assert result.ok
    assert only_call(tmp_path)["files"] == names


def test_no_artifacts_are_no_call(tmp_path: Path) -> None:
    assert agent_in(tmp_path).upload_artifacts([], tmp_path).ok
    assert stand_in_agent.calls(tmp_path / "log") == []


def test_an_agent_that_hangs_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    hanging = script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; echo waiting; wait")
    # Long enough to have started the child, on a busy machine too; the child's own end is what is looked at.
    result = Agent(hanging, os.environ, call_timeout_s=2).set_metadata("k", "v")

    assert (
        result.message
        == "buildkite-agent meta-data set did not end within 2 s, and was given up: waiting"
    )
    assert has_ended(int((tmp_path / "child").read_text()))


def test_a_child_that_outlives_the_agent_and_keeps_its_output_holds_nobody_up(
    tmp_path: Path,
) -> None:
    leaving = script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child")

    result = Agent(leaving, os.environ, call_timeout_s=60).set_metadata("k", "v")

    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    assert result.ok


def test_an_agent_that_vanished_is_a_failure_and_no_exception(tmp_path: Path) -> None:
    result = Agent(str(tmp_path / "gone"), os.environ).annotate("b", style="info", context="c")

    assert not result.ok
    assert "could not be run" in result.message
