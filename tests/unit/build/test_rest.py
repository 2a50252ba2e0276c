# SPDX-License-Identifier: Apache-2.0
"""The jobs of a build from a stand-in REST API, and what its failures look like."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ci_doctor.build.current import KnownJobs, read_jobs
from ci_doctor.build.job_attempt import jobs_of
from ci_doctor.buildkite.rest import RequestLimits
from tests.support.stand_in_api import TOKEN, StandInApi, running_api

LIMITS = RequestLimits(pause_s=0.0)
IMPATIENT = RequestLimits(try_s=0.2, all_s=60.0, tries=2, pause_s=0.0)


def a_script(job: str = "j1", **changes: Any) -> dict[str, Any]:
    return {
        "id": job,
        "type": "script",
        "name": ":pytest: e2e",
        "step_key": "e2e",
        "state": "passed",
        "exit_status": 0,
        "soft_failed": False,
        "web_url": f"https://buildkite.com/acme/serving/builds/812#{job}",
        "agent": {"id": "a1", "name": "gpu-1", "meta_data": ["os=linux", "queue=h100"]},
        "agent_query_rules": ["queue=default"],
        "runnable_at": "2026-11-21T10:00:00.500Z",
        "started_at": "2026-11-21T10:00:05.000Z",
        "finished_at": "2026-11-21T10:01:05.000Z",
        "retried_in_job_id": None,
        "retries_count": None,
        "parallel_group_index": 2,
        **changes,
    }


def body(*jobs: object) -> bytes:
    return json.dumps({"jobs": jobs}).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[StandInApi]:
    with running_api() as api:
        yield api


@pytest.fixture
def api(server: StandInApi) -> StandInApi:
    server.requests.clear()
    server.replies.clear()
    server.jobs, server.body = [], None
    return server


def environ(api: StandInApi, **changes: str) -> dict[str, str]:
    return {
        "BUILDKITE_API_TOKEN": TOKEN,
        "BUILDKITE_ORGANIZATION_SLUG": "acme",
        "BUILDKITE_PIPELINE_SLUG": "serving",
        "BUILDKITE_BUILD_NUMBER": "812",
        "BUILDKITE_REST_API_ENDPOINT": api.url,
        **changes,
    }


def read(api: StandInApi, limits: RequestLimits = LIMITS, **changes: str) -> KnownJobs:
    return read_jobs(environ(api, **changes), limits=limits)


def problem_of(api: StandInApi, limits: RequestLimits = LIMITS, **changes: str) -> str:
    """Why no jobs are known."""
    known = read(api, limits, **changes)
    assert known.jobs is None
    assert known.problem is not None
    return known.problem


def test_a_job_has_its_queue_time_place_and_times() -> None:
    (job,) = jobs_of(body(a_script()))

    assert (job.job, job.step_key, job.parallel_index) == ("j1", "e2e", 2)
    assert job.label == ":pytest: e2e"
    assert (job.queued_s, job.queue, job.agent) == (4.5, "h100", "gpu-1")
    assert (job.began_at, job.ended_at) == ("2026-11-21T10:00:05.000Z", "2026-11-21T10:01:05.000Z")
    assert (job.state, job.exit_status, job.is_soft_failed) == ("passed", 0, False)


def test_what_the_api_leaves_open_is_unknown() -> None:
    (job,) = jobs_of(b'{"jobs": [{"id": "j1", "type": "script", "agent": null}]}')

    assert (job.queued_s, job.queue, job.exit_status, job.began_at) == (None, None, None, None)


@pytest.mark.parametrize(
    ("runnable", "started"),
    [
        ("2026-11-21T10:00:06Z", "2026-11-21T10:00:05Z"),
        ("soon", "2026-11-21T10:00:05Z"),
        (None, None),
    ],
)
def test_a_queue_time_that_cannot_be_computed_is_unknown(
    runnable: str | None, started: str | None
) -> None:
    (job,) = jobs_of(body(a_script(runnable_at=runnable, started_at=started)))

    assert job.queued_s is None


def test_attempts_are_counted_along_the_retries() -> None:
    jobs = jobs_of(
        body(
            a_script("third", retries_count=2),
            a_script("first", retried_in_job_id="second"),
            a_script("second", retried_in_job_id="third", retries_count=1),
        )
    )

    assert {job.job: job.attempt for job in jobs} == {"first": 0, "second": 1, "third": 2}


def test_without_its_earlier_attempts_a_jobs_own_count_is_taken() -> None:
    (job,) = jobs_of(body(a_script(retries_count=2)))

    assert job.attempt == 2


def test_jobs_that_retry_each_other_in_a_circle_end() -> None:
    jobs = jobs_of(body(a_script("a", retried_in_job_id="b"), a_script("b", retried_in_job_id="a")))

    assert len(jobs) == 2


def test_waits_blocks_and_triggers_are_no_jobs() -> None:
    others = [{"type": "waiter"}, {"type": "manual", "id": 5}, {"type": "trigger", "id": "t"}, {}]

    assert [job.job for job in jobs_of(body(*others, a_script()))] == ["j1"]


@pytest.mark.parametrize(
    "text", [b"", b"<html>", b"[]", b"{}", b'{"jobs": [{"type": "script"}]}', b"\xff"]
)
def test_an_answer_of_another_form_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="no build"):
        jobs_of(text)


def test_the_request_names_the_build_and_wants_retried_jobs(api: StandInApi) -> None:
    api.jobs = [a_script("j1", retried_in_job_id="j2"), a_script("j2")]

    known = read(api)

    (request,) = api.requests
    assert request.path == "/v2/organizations/acme/pipelines/serving/builds/812"
    assert known.problem is None
    assert known.jobs is not None
    assert [job.job for job in known.jobs] == ["j1", "j2"]


def test_without_a_token_nobody_is_asked_and_nothing_is_wrong(api: StandInApi) -> None:
    assert read(api, BUILDKITE_API_TOKEN=" ") == KnownJobs()
    assert api.requests == []


@pytest.mark.parametrize(
    ("replies", "words", "requests"),
    [
        ([500, 500, 500], "HTTP 500", 3),
        ([503, 429, 403], "read_builds", 3),
        ([401], "token is not valid", 1),
        ([404], "no such build", 1),
        ([302], "HTTP 302", 1),
    ],
)
def test_a_failure_is_a_sentence_without_the_token(
    api: StandInApi, replies: list[int | str | None], words: str, requests: int
) -> None:
    api.replies[:] = replies

    problem = problem_of(api)

    assert words in problem
    assert "queue times are unknown" in problem
    assert TOKEN not in problem
    assert len(api.requests) == requests


@pytest.mark.parametrize("word", ["hang", "trickle", "trickle headers"])
def test_an_api_that_never_ends_its_answer_is_left(api: StandInApi, word: str) -> None:
    api.replies[:] = [word, word]

    assert "no whole answer within 0.2 s" in problem_of(api, IMPATIENT)
    assert len(api.requests) == 2


def test_a_busy_api_is_asked_again(api: StandInApi) -> None:
    api.jobs = [a_script()]
    api.replies[:] = [429, 502]

    assert read(api).jobs


@pytest.mark.parametrize("token", ["a\nb", "größe\ud800"])
def test_a_token_that_no_request_can_hold_is_not_in_the_message(
    api: StandInApi, token: str
) -> None:
    problem = problem_of(api, BUILDKITE_API_TOKEN=token)

    assert token not in problem
    assert repr(token)[1:-1] not in problem


@pytest.mark.parametrize(
    ("changes", "limits", "words"),
    [
        ({"BUILDKITE_BUILD_NUMBER": ""}, LIMITS, "BUILDKITE_BUILD_NUMBER"),
        ({}, RequestLimits(all_s=0.0), "the time for it is over"),
        # A token goes nowhere without encryption.
        ({"BUILDKITE_REST_API_ENDPOINT": "http://api.test"}, LIMITS, "no https address"),
        *(
            ({"BUILDKITE_REST_API_ENDPOINT": endpoint}, LIMITS, "")
            for endpoint in ("http://127.0.0.1:1", "file:///etc", "http://[", "not a url")
        ),
    ],
)
def test_what_cannot_be_asked_is_a_problem(
    api: StandInApi, changes: dict[str, str], limits: RequestLimits, words: str
) -> None:
    assert words in problem_of(api, limits, **changes)
    assert api.requests == []


@pytest.mark.parametrize("proxy", ["gopher://proxy", "http://proxy:port"])
def test_a_proxy_that_no_request_can_use_is_a_problem(
    api: StandInApi, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)

    problem = problem_of(api)

    assert ("no request is possible" in problem, proxy in problem) == (True, False)


def test_an_answer_that_is_too_large_is_not_read(api: StandInApi) -> None:
    api.body = b"x" * 2000

    assert "too large" in problem_of(api, RequestLimits(reply_bytes=1000))
