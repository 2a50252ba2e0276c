# SPDX-License-Identifier: Apache-2.0
"""Uploads to a stand-in Test Engine: what is sent, and what its failures look like."""

from collections.abc import Iterator

import pytest

from ci_doctor.build.engine_upload import run_environment, upload
from ci_doctor.buildkite.bounded_request import RequestLimits
from ci_doctor.model.facts.build_upload import BuildUploadFacts
from tests.support.stand_in_api import TOKEN, StandInApi, running_api

LIMITS = RequestLimits(pause_s=0.0)
RESULTS = [{"name": f"case {number}", "history": {}} for number in range(250)]


@pytest.fixture(scope="module")
def server() -> Iterator[StandInApi]:
    with running_api() as api:
        yield api


@pytest.fixture
def api(server: StandInApi) -> StandInApi:
    server.requests.clear()
    server.replies.clear()
    server.skipped, server.errors, server.body = 0, [], None
    return server


def send(
    api: StandInApi, *, token: str = TOKEN, limits: RequestLimits = LIMITS, path: str = "/v1"
) -> BuildUploadFacts:
    environ = {"BUILDKITE_ANALYTICS_API_URL": f"{api.url}{path}"}
    return upload(RESULTS, environ, token=token, run={"key": "b1"}, limits=limits)


def test_results_go_in_batches_of_100_that_join_one_run(api: StandInApi) -> None:
    uploaded = send(api)

    assert [len(each.body["data"]) for each in api.requests] == [100, 100, 50]
    assert {each.path for each in api.requests} == {"/v1/uploads"}
    assert all(each.body["format"] == "json" for each in api.requests)
    assert all(each.body["run_env"] == {"key": "b1"} for each in api.requests)
    assert (uploaded.queued, uploaded.problems) == (250, ())
    assert uploaded.address is not None


def test_an_address_may_be_that_of_the_uploads_itself(api: StandInApi) -> None:
    assert send(api, path="/v1/uploads").queued == 250


def test_records_that_are_skipped_are_reported_though_the_answer_is_202(api: StandInApi) -> None:
    api.skipped, api.errors = 3, ["name is blank"]

    problems = send(api).problems

    assert "Test Engine skipped 3 results" in problems
    assert "Test Engine: name is blank" in problems


@pytest.mark.parametrize(
    ("replies", "words", "requests", "queued"),
    [
        ([401], "token is not valid", 1, 0),
        ([None, 413], "too large", 2, 100),
        ([500, 500, 500], "HTTP 500", 3, 0),
        ([302], "HTTP 302", 1, 0),
    ],
)
def test_a_failure_ends_the_upload_and_says_how_much_is_missing(
    api: StandInApi, replies: list[int | str | None], words: str, requests: int, queued: int
) -> None:
    api.replies[:] = replies

    uploaded = send(api)

    assert any(words in problem for problem in uploaded.problems)
    assert uploaded.problems[-1] == f"{250 - queued} of 250 results are not uploaded"
    assert TOKEN not in str(uploaded)
    assert (len(api.requests), uploaded.queued) == (requests, queued)


def test_a_busy_service_is_asked_again(api: StandInApi) -> None:
    api.replies[:] = [429, 503]

    assert (send(api).queued, len(api.requests)) == (250, 5)


def test_a_service_that_hangs_is_left(api: StandInApi) -> None:
    api.replies[:] = ["hang"]

    uploaded = send(api, limits=RequestLimits(try_s=0.2, tries=1))

    assert uploaded.problems[0] == "no whole answer within 0.2 s"


def test_an_answer_of_somebody_else_is_a_problem(api: StandInApi) -> None:
    api.body = b"<html>"

    assert "the answer is not that of Test Engine" in send(api).problems


def test_the_run_is_that_of_the_build_and_unknown_values_are_left_out() -> None:
    environ = {"BUILDKITE_BUILD_ID": "b1", "BUILDKITE_COMMIT": "c", "BUILDKITE_MESSAGE": ""}

    run = run_environment(environ, version="1.0")

    assert run == {
        "CI": "buildkite",
        "collector": "ci-doctor",
        "version": "1.0",
        "key": "b1",
        "commit_sha": "c",
    }
