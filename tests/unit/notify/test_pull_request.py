# SPDX-License-Identifier: Apache-2.0
"""The pull request of a job, from the variables of Buildkite and GitHub Actions."""

import json
from pathlib import Path

import pytest

from ci_doctor.notify.pull_request import PullRequest, read_pull_request
from ci_doctor.notify.settings import GithubSettings

SETTINGS = GithubSettings(token_env="T")
BUILDKITE = {
    "BUILDKITE_PULL_REQUEST": "7",
    "BUILDKITE_REPO": "git@github.com:acme/serving.git",
    "BUILDKITE_PULL_REQUEST_REPO": "https://github.com/stranger/serving.git",
}
SEVEN = PullRequest(api_url="https://api.github.com", repository="acme/serving", number=7)


def test_buildkite_names_it_and_a_forks_request_is_one_to_the_pipelines_repository() -> None:
    assert read_pull_request(SETTINGS, BUILDKITE) == SEVEN


def test_github_actions_names_it_by_the_ref() -> None:
    environ = {"GITHUB_REF": "refs/pull/7/merge", "GITHUB_REPOSITORY": "acme/serving"}

    assert read_pull_request(SETTINGS, environ) == SEVEN


@pytest.mark.parametrize(
    ("event", "number"),
    [
        ({"pull_request": {"number": 7}}, 7),
        ({"issue": {"number": 7, "pull_request": {"url": "…"}}}, 7),
        ({"issue": {"number": 7}}, None),
        ({"pull_request": {"number": "7/../8"}}, None),
        ({"pull_request": {"number": True}}, None),
        ([], None),
    ],
)
def test_other_events_name_it_in_their_file(
    event: object, number: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))
    environ = {
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_REPOSITORY": "acme/serving",
    }

    found = read_pull_request(SETTINGS, environ)

    assert found == (SEVEN if number else "this job belongs to no pull request")


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff"])
def test_a_broken_event_is_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_bytes(content)

    found = read_pull_request(SETTINGS, {"GITHUB_EVENT_PATH": str(path)})

    assert found == "this job belongs to no pull request"


@pytest.mark.parametrize("word", ["false", "", "0", "7;8", "٧"])
def test_what_is_no_number_is_no_pull_request(word: str) -> None:
    found = read_pull_request(SETTINGS, {**BUILDKITE, "BUILDKITE_PULL_REQUEST": word})

    assert found == "this job belongs to no pull request"


@pytest.mark.parametrize("repo", ["https://gitlab.com/acme/serving.git", "", "/srv/git/serving"])
def test_a_repository_of_another_host_is_not_asked_for_at_github(repo: str) -> None:
    found = read_pull_request(SETTINGS, {**BUILDKITE, "BUILDKITE_REPO": repo})

    assert isinstance(found, str)
    assert "name it by `repository`" in found


def test_github_enterprise_is_named_by_its_address() -> None:
    settings = GithubSettings(token_env="T", api_url="https://git.acme.example/api/v3/")
    environ = {**BUILDKITE, "BUILDKITE_REPO": "https://git.acme.example/acme/serving.git"}

    assert read_pull_request(settings, environ) == PullRequest(
        api_url="https://git.acme.example/api/v3", repository="acme/serving", number=7
    )
