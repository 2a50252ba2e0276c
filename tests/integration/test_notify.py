# SPDX-License-Identifier: Apache-2.0
"""Commands that send messages, to a stand-in for GitHub and Slack by https: they change no exit code and show no secret."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.render.json import render
from tests.support import stand_in_agent
from tests.support.builders import a_report
from tests.support.builds import a_red_build, job_id, write_build
from tests.support.cli import Ran, doctor
from tests.support.stand_in_github import REPOSITORY, TOKEN, StandInGithub, running_github

pytestmark = pytest.mark.integration
HOOK_PART = "services-secret-part"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandInGithub]:
    with running_github(Path(tmp_path_factory.mktemp("github"))) as github:
        yield github


@pytest.fixture
def github(server: StandInGithub) -> StandInGithub:
    server.clear()
    return server


def configure(folder: Path, github: StandInGithub) -> Path:
    """A configuration with GitHub and Slack."""
    path = folder / "ci-doctor.toml"
    path.write_text(
        "[notify]\n"
        f'github = {{token_env = "PR_TOKEN", repository = "{REPOSITORY}", api_url = "{github.url}"}}\n'
        'slack = {url_env = "SLACK_URL"}\n'
    )
    return path


def secrets(github: StandInGithub) -> dict[str, str]:
    return {
        "SSL_CERT_FILE": str(github.certificate),
        "PR_TOKEN": TOKEN,
        "SLACK_URL": f"{github.url}/hook/{HOOK_PART}",
        "BUILDKITE_PULL_REQUEST": "7",
    }


def a_failed_report(folder: Path) -> Path:
    """The report of a command that could not be run as it was typed."""
    directory = folder / "r"
    directory.mkdir()
    (directory / "report.json").write_text(render(a_report(None)))
    return directory


def report(folder: Path, *words: str, **environ: str) -> Ran:
    return doctor("report", folder / "r", "--notify", *words, cwd=folder, env=environ)


def test_a_step_gets_one_comment_and_a_retry_changes_it(
    github: StandInGithub, tmp_path: Path
) -> None:
    configure(tmp_path, github)
    a_failed_report(tmp_path)
    step = {"GITHUB_ACTIONS": "true", "GITHUB_JOB": "e2e", "GITHUB_RUN_ID": "42"}
    step |= {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": REPOSITORY}

    first = report(tmp_path, **secrets(github), **step)
    again = report(tmp_path, **secrets(github), **{**step, "GITHUB_RUN_ID": "43"})

    assert (first.code, first.out, again.code) == (0, "", 0), first
    assert first.err.splitlines() == [
        f"ci-doctor: github: the message is sent: {github.comments[0]['html_url']}",
        "ci-doctor: slack: the message is sent",
    ]
    assert "github: the message is edited" in again.err
    (comment,) = github.comments
    _, head, cause, where, *_ = comment["body"].split("\n")
    assert head == "**✗ ERROR** · `e2e`\\"
    assert "unknown key" in cause
    assert where == f"<https://github.com/{REPOSITORY}/actions/runs/43>"
    texts = [each["text"] for each in github.posted if "text" in each]
    assert [text.count("\n") for text in texts] == [2, 2]


def test_json_says_what_became_of_each_message_and_holds_no_secret(
    github: StandInGithub, tmp_path: Path
) -> None:
    configure(tmp_path, github)
    a_failed_report(tmp_path)
    github.replies[:] = [(403, {"retry-after": "60"})] * 2

    ran = report(tmp_path, "--json", **{**secrets(github), "SLACK_URL": ""})

    written = json.loads(ran.out)
    assert (ran.code, written["verdict"], written["exit_code"]) == (0, None, 0), ran
    to_github, to_slack = written["facts"]["notifications"]
    assert to_github["state"] == "failed"
    assert "asks to wait 60 s" in to_github["reason"]
    assert (to_slack["state"], to_slack["reason"]) == ("skipped", "$SLACK_URL is not set")
    assert [each["rule"] for each in written["findings"]] == ["notify/not-sent"]
    # One line for what failed, and none for what is skipped.
    assert len(ran.err.splitlines()) == 1
    assert TOKEN not in ran.out + ran.err


def test_a_file_is_named_from_the_configuration_and_a_variable_names_the_step(
    github: StandInGithub, tmp_path: Path
) -> None:
    folder = tmp_path / "ci"
    folder.mkdir()
    (folder / "hook").write_text(f"{github.url}/hook\n")
    (folder / "notify.toml").write_text('[notify]\nwebhook = {url_file = "hook"}\n')
    a_failed_report(tmp_path)
    environ = {**secrets(github), "CI_DOCTOR_NOTIFY_STEP": "e2e 3.12"}

    ran = report(tmp_path, "--config", "ci/notify.toml", **environ)

    assert ran.err == "ci-doctor: webhook: the message is sent\n", ran
    (body,) = github.posted
    assert (body["subject"], body["verdict"]) == ("e2e 3.12", "error")


def test_a_fork_without_secrets_is_silent(github: StandInGithub, tmp_path: Path) -> None:
    configure(tmp_path, github)
    a_failed_report(tmp_path)

    ran = report(tmp_path, BUILDKITE_PULL_REQUEST="7")

    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert github.requests == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no place for a message"),
        (
            f'[notify]\ngithub = {{token_env = "{TOKEN}"}}',
            "ci-doctor.toml:2: `notify.github.token_env`",
        ),
        ('[notify]\nslack = {url = "https://hooks.example/x"}', "unknown"),
        ('[notify]\ntimeout = "1m"\nslack = {url_env = "S"}', "more than 10 s"),
    ],
)
def test_a_mistake_in_the_configuration_is_a_usage_error_that_repeats_no_token(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "ci-doctor.toml").write_text(text)

    ran = report(tmp_path)

    assert ran.code == 2, ran
    assert words in " ".join(ran.err.split())
    assert TOKEN not in ran.err


def test_a_build_gets_one_comment_and_its_report_says_what_became_of_it(
    github: StandInGithub, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    stand_in_agent.install(tmp_path / "bin", log)
    stand_in_agent.put_build(log, write_build(tmp_path / "uploaded", a_red_build(), "correctness"))
    job = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "BUILDKITE": "true",
        "BUILDKITE_JOB_ID": job_id("publish"),
        "BUILDKITE_STEP_KEY": "publish",
        **secrets(github),
    }
    configure(tmp_path, github)

    ran = doctor("build", "publish", "--notify", "--json", cwd=tmp_path, env=job)

    assert ran.code == 0, ran
    written = json.loads(ran.out)
    assert written["verdict"] == "failed"
    (messages,) = [table for table in written["tables"] if table["title"] == "Messages"]
    assert [row["cells"][0]["value"] for row in messages["rows"]] == ["sent", "sent"]
    (comment,) = github.comments
    assert "**✗ FAILED** · `build 812`" in comment["body"]
    assert HOOK_PART not in ran.out + ran.err
    assert "ci-doctor:build" in stand_in_agent.annotations(log)
