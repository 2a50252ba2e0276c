# SPDX-License-Identifier: Apache-2.0
"""Artifacts by a stand-in REST API: all pages, no token for the storage, limits of time and size."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.buildkite.download_plan import DownloadLimits
from ci_doctor.buildkite.rest_artifacts import RestDownload
from tests.support.stand_in_api import TOKEN, StandInApi, running_api

LIMITS = DownloadLimits()


@pytest.fixture
def api() -> Iterator[StandInApi]:
    with running_api() as running:
        yield running


def download(
    api: StandInApi, into: Path, *, limits: DownloadLimits = LIMITS, **changes: str
) -> RestDownload:
    environ = {
        "BUILDKITE_API_TOKEN": TOKEN,
        "BUILDKITE_REST_API_ENDPOINT": api.url,
        "BUILDKITE_ORGANIZATION_SLUG": "acme",
        "BUILDKITE_PIPELINE_SLUG": "serving",
        "BUILDKITE_BUILD_NUMBER": "812",
        **changes,
    }
    made = RestDownload(environ, into, limits)
    made.fetch("*.xml", made.search(), lambda _: None)
    return made


def placed(made: RestDownload, into: Path) -> dict[str, str]:
    return {path.relative_to(into).as_posix(): job for path, job in made.files.items()}


def test_the_artifacts_of_all_pages_are_listed(api: StandInApi, tmp_path: Path) -> None:
    for number in range(250):
        api.put_artifact("j1", f"{number}.txt")
    api.put_artifact("j2", "out/junit.xml", b"<x/>")

    made = download(api, tmp_path)

    assert made.problems == []
    assert placed(made, tmp_path) == {"of-j2/out/junit.xml": "j2"}
    assert (tmp_path / "of-j2/out/junit.xml").read_bytes() == b"<x/>"
    base = "/v2/organizations/acme/pipelines/serving/builds/812"
    assert [request.path.removeprefix(base) for request in api.requests] == [
        *["/artifacts"] * 3,
        "/jobs/j2/artifacts/a250/download",
        "/storage/a250",
    ]
    assert [request.query["page"] for request in api.requests[:3]] == [["1"], ["2"], ["3"]]


def test_the_storage_never_sees_the_token(api: StandInApi, tmp_path: Path) -> None:
    api.put_artifact("j1", "junit.xml")

    download(api, tmp_path)

    asked = {request.path.split("/")[1]: request.headers for request in api.requests}
    assert asked["v2"]["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in str(asked["storage"])


@pytest.mark.parametrize("storage", ["http://storage.test", "file:///etc", "http://[odd"])
def test_a_redirect_to_an_unencrypted_address_is_not_followed(
    api: StandInApi, tmp_path: Path, storage: str
) -> None:
    api.put_artifact("j1", "junit.xml")
    api.storage = storage

    made = download(api, tmp_path)

    assert made.files == {}
    assert made.problems == [
        "'junit.xml' of job j1 could not be downloaded: its address is not an https one"
    ]


def test_redirects_in_a_circle_end(api: StandInApi, tmp_path: Path) -> None:
    api.put_artifact("j1", "junit.xml")
    api.replies += [None, None, 302, 302, 302, 302]

    made = download(api, tmp_path)

    assert made.files == {}
    assert len(api.requests) < 6


@pytest.mark.parametrize(
    ("declared", "problem"), [(1, "the answer is too large"), (3, "2 of 3 bytes came")]
)
def test_an_artifact_of_another_size_than_listed_is_left_out(
    api: StandInApi, tmp_path: Path, declared: int, problem: str
) -> None:
    api.put_artifact("j1", "junit.xml", b"{}", file_size=declared)

    made = download(api, tmp_path)

    assert (made.files, list(tmp_path.iterdir())) == ({}, [])
    assert problem in made.problems[0]


@pytest.mark.parametrize(
    ("path", "changes", "problem"),
    [
        ("../../escaped.xml", {}, "is odd"),
        ("huge.xml", {"file_size": 10**9}, "too large"),
        ("gone.xml", {"state": "expired"}, "its state is 'expired'"),
    ],
)
def test_what_cannot_or_must_not_be_downloaded_is_named(
    api: StandInApi, tmp_path: Path, path: str, changes: dict[str, Any], problem: str
) -> None:
    api.put_artifact("j1", path, **changes)
    api.put_artifact("j1", "fine.xml")

    made = download(api, tmp_path / "into")

    assert placed(made, tmp_path / "into") == {"of-j1/fine.xml": "j1"}
    (text,) = made.problems
    assert path in text
    assert problem in text


@pytest.mark.parametrize(
    ("reply", "reason"), [(401, "not valid"), (403, "read_artifacts"), (404, "no such build")]
)
def test_a_refusal_names_its_reason_and_no_token(
    api: StandInApi, tmp_path: Path, reply: int, reason: str
) -> None:
    api.replies.append(reply)

    made = download(api, tmp_path)

    (text,) = made.problems
    assert reason in text
    assert TOKEN not in text


def test_odd_lists_are_a_problem(api: StandInApi, tmp_path: Path) -> None:
    api.body = b'{"artifacts": 1}'

    (text,) = download(api, tmp_path).problems

    assert "lists no artifacts" in text


def test_a_silent_api_is_left_at_the_end_of_the_time(api: StandInApi, tmp_path: Path) -> None:
    api.replies.append("hang")

    made = download(api, tmp_path, limits=DownloadLimits(call_s=0.2, all_s=0.2))

    # On a busy machine, the time may be over before the request is sent.
    assert re.search("no whole answer|the time for it is over", made.problems[0])


@pytest.mark.parametrize(
    ("resets_s", "problems"),
    [(1, []), (3600, ["Buildkite's REST API lists no artifacts: HTTP 429"])],
)
def test_a_limit_of_requests_is_waited_for_if_there_is_time(
    api: StandInApi, tmp_path: Path, resets_s: int, problems: list[str]
) -> None:
    api.put_artifact("j1", "junit.xml")
    api.limit_resets_s = resets_s
    api.replies.append(429)

    made = download(api, tmp_path)

    assert made.problems == problems
