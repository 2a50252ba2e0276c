# SPDX-License-Identifier: Apache-2.0
"""A slow API costs a job a bounded time in sum, whatever calls there are."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.build.current import merge_current, publish_build, read_jobs
from ci_doctor.buildkite import agent as api_time
from ci_doctor.buildkite.agent import Agent, ApiTime, moving_s
from ci_doctor.buildkite.rest import request_log
from tests.support import stand_in_agent
from tests.support.builders import a_report
from tests.support.stand_in_api import TOKEN, StandInApi, running_api

MOST_S = 3.0  # as much as one call may always have


@pytest.fixture
def server() -> Iterator[StandInApi]:
    with running_api() as api:
        yield api


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_time, "MOST_S", MOST_S)


def in_job(folder: Path, server: StandInApi | None = None, **changed: str) -> dict[str, str]:
    environ = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "BUILDKITE": "true",
        "BUILDKITE_JOB_ID": "0190-job",
        "BUILDKITE_STEP_KEY": "publish",
        "BUILDKITE_ORGANIZATION_SLUG": "acme",
        "BUILDKITE_PIPELINE_SLUG": "serving",
        "BUILDKITE_BUILD_NUMBER": "812",
    }
    if server is not None:
        environ["BUILDKITE_API_TOKEN"] = TOKEN
        environ["BUILDKITE_REST_API_ENDPOINT"] = server.url
    return {**environ, **changed}


def hanging_agent(folder: Path) -> Path:
    """One that knows every option, writes each call to a file, and never ends another one than --help."""
    agent = folder / "bin" / "buildkite-agent"
    agent.parent.mkdir()
    options = "--format --priority --literal --include-retried-jobs"
    agent.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *--help) echo "{options}"; exit ;; esac\n'
        f'echo "$1 $2" >> {folder}/calls\n'
        "while :; do printf .; sleep 0.1; done\n"
    )
    agent.chmod(0o755)
    return agent


@pytest.mark.parametrize("reply", ["hang", "trickle", "trickle headers"])
def test_a_build_is_published_within_the_time_for_all_calls_and_says_what_was_given_up(
    reply: str, server: StandInApi, tmp_path: Path
) -> None:
    hanging_agent(tmp_path)
    server.replies = [reply] * 5
    environ = in_job(tmp_path, server)
    left = ApiTime.of_job(environ)

    outcome, _ = merge_current(environ, api_time=left)
    lines = publish_build(a_report(), environ, api_time=left)

    assert left.left_s() <= 0
    told = [*(finding.summary for finding in outcome.findings), *lines]
    assert any("artifact search did not end" in each and "given up" in each for each in told)
    assert any("Buildkite's API has had its" in each for each in told)
    assert (tmp_path / "calls").read_text().splitlines() == ["artifact search"]


def test_one_call_leaves_time_for_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_time, "MOST_S", 30.0)
    left = ApiTime()

    assert left.limit_s(120.0) == 20.0
    assert left.limit_s(5.0) == 5.0


def test_what_one_hook_has_waited_for_is_missing_to_the_next(tmp_path: Path) -> None:
    environ = in_job(tmp_path, CI_DOCTOR_REPORT_DIR=str(tmp_path))
    executable = str(hanging_agent(tmp_path))
    first = Agent(executable, environ, api_time=ApiTime.of_job(environ))

    first.set_metadata("a", "1")
    second = Agent(executable, environ, api_time=ApiTime.of_job(environ))
    result = second.set_metadata("c", "3")

    assert "was not called: Buildkite's API has had its" in result.message
    assert len((tmp_path / "calls").read_text().splitlines()) == 1
    assert ApiTime.of_job({**environ, "BUILDKITE_JOB_ID": "another"}).left_s() == MOST_S


def test_after_the_time_nothing_is_asked_for_by_rest(server: StandInApi, tmp_path: Path) -> None:
    environ = in_job(tmp_path, server, CI_DOCTOR_REPORT_DIR=str(tmp_path))
    (tmp_path / ".api.json").write_text('{"job": "0190-job", "seconds": 30}')

    assert "not asked" in str(read_jobs(environ).problem)
    assert "the time for it is over" in str(request_log(environ))
    assert server.requests == []


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"job": "0190-job"}', '{"job": "0190-job", "seconds": "x"}']
)
def test_a_file_that_nobody_can_read_takes_no_time(content: str, tmp_path: Path) -> None:
    (tmp_path / ".api.json").write_text(content)

    left = ApiTime.of_job(in_job(tmp_path, CI_DOCTOR_REPORT_DIR=str(tmp_path)))

    assert left.left_s() == MOST_S


def test_the_time_that_files_take_is_not_counted(tmp_path: Path) -> None:
    stand_in_agent.install(tmp_path / "bin", tmp_path / "log")
    left = ApiTime()
    large = tmp_path / "large.log"
    with large.open("wb") as file:
        file.truncate(1_000_000_000)

    with left.counted(moving_s([large.stat().st_size])):
        pass

    assert left.left_s() == MOST_S
    assert moving_s([large.stat().st_size]) > 100
