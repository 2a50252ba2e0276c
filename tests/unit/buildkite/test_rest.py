# SPDX-License-Identifier: Apache-2.0
"""Which build a word means, with a stand-in REST API where its id is not known."""

from collections.abc import Iterator

import pytest

from ci_doctor.buildkite.rest import (
    BUILD,
    NamedBuild,
    RequestLimits,
    address,
    is_encrypted,
    is_local,
    named_build,
    refusal,
)
from ci_doctor.errors import InfraError, UsageError
from tests.support.stand_in_api import BUILD_ID, TOKEN, StandInApi, running_api

JOB = {
    "BUILDKITE_ORGANIZATION_SLUG": "acme",
    "BUILDKITE_PIPELINE_SLUG": "serving",
    "BUILDKITE_BUILD_NUMBER": "900",
    "BUILDKITE_BUILD_ID": "0193a000-0000-4000-8000-000000000900",
    "BUILDKITE_COMMIT": "abc",
    "BUILDKITE_BRANCH": "main",
}
ONE_TRY = RequestLimits(tries=1)


@pytest.fixture(scope="module")
def server() -> Iterator[StandInApi]:
    with running_api() as api:
        yield api


@pytest.fixture
def api(server: StandInApi) -> StandInApi:
    server.requests.clear()
    server.replies.clear()
    server.body = None
    return server


@pytest.mark.parametrize(
    "word",
    [
        "current",
        "900",
        JOB["BUILDKITE_BUILD_ID"],
        "https://buildkite.com/acme/serving/builds/900#x",
    ],
)
def test_the_build_of_this_job_needs_no_token(word: str) -> None:
    assert named_build(word, JOB) == NamedBuild(
        label="build 900",
        organization="acme",
        pipeline="serving",
        number=900,
        commit="abc",
        branch="main",
    )


def test_an_id_needs_no_token() -> None:
    assert named_build(BUILD_ID, JOB) == NamedBuild(label=BUILD_ID, id=BUILD_ID)


@pytest.mark.parametrize("word", ["812", "https://buildkite.com/acme/serving/builds/812"])
def test_the_api_knows_the_id_of_a_number(api: StandInApi, word: str) -> None:
    environ = {**JOB, "BUILDKITE_API_TOKEN": TOKEN, "BUILDKITE_REST_API_ENDPOINT": api.url}

    build = named_build(word, environ)

    assert (build.id, build.number, build.commit) == (BUILD_ID, 812, "4fe1a2b")
    (request,) = api.requests
    assert request.path == "/v2/organizations/acme/pipelines/serving/builds/812"


@pytest.mark.parametrize("word", ["", "latest", "https://buildkite.com/acme/serving", "../812"])
def test_what_is_no_build_is_a_usage_error(word: str) -> None:
    with pytest.raises(UsageError, match="it is no build"):
        named_build(word, JOB)


def test_a_number_means_nothing_outside_a_pipeline() -> None:
    with pytest.raises(UsageError, match="BUILDKITE_PIPELINE_SLUG is not set"):
        named_build("812", {})


def test_a_number_without_a_token_names_the_variable() -> None:
    with pytest.raises(UsageError, match="BUILDKITE_API_TOKEN is not set"):
        named_build("812", JOB)


def test_a_token_is_not_sent_without_encryption() -> None:
    environ = {
        **JOB,
        "BUILDKITE_API_TOKEN": TOKEN,
        "BUILDKITE_REST_API_ENDPOINT": "http://api.test",
    }

    with pytest.raises(UsageError, match="no https address"):
        named_build("812", environ)


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (401, UsageError, "not valid"),
        (404, UsageError, "no such build"),
        (500, InfraError, "HTTP 500"),
    ],
)
def test_a_refusal_is_a_usage_error_and_a_broken_api_is_infrastructure(
    api: StandInApi, reply: int, kind: type[Exception], words: str
) -> None:
    environ = {**JOB, "BUILDKITE_API_TOKEN": TOKEN, "BUILDKITE_REST_API_ENDPOINT": api.url}
    api.replies.append(reply)

    with pytest.raises(kind, match=words):
        named_build("812", environ, limits=ONE_TRY)


@pytest.mark.parametrize("body", [b"[]", b"not JSON", b'{"id": "--step"}'])
def test_an_odd_answer_is_infrastructure(api: StandInApi, body: bytes) -> None:
    environ = {**JOB, "BUILDKITE_API_TOKEN": TOKEN, "BUILDKITE_REST_API_ENDPOINT": api.url}
    api.body = body

    with pytest.raises(InfraError, match="REST API"):
        named_build("812", environ, limits=ONE_TRY)


BUILD_812 = {
    "BUILDKITE_ORGANIZATION_SLUG": "acme",
    "BUILDKITE_PIPELINE_SLUG": "a/../b",
    "BUILDKITE_BUILD_NUMBER": "812",
}


@pytest.mark.parametrize(
    ("url", "encrypted", "local"),
    [
        ("https://api.buildkite.com", True, False),
        ("http://api.buildkite.com", False, False),
        ("http://127.0.0.1:8080", False, True),
        ("http://[::1]:8080/v2", False, True),
        ("http://localhost", False, True),
        ("http://localhost.evil.test", False, False),
        ("http://127.0.0.1@evil.test", False, False),
        ("https://", False, False),
        ("http://[odd", False, False),
        ("file:///etc/passwd", False, False),
    ],
)
def test_an_address_is_encrypted_or_on_this_machine_or_neither(
    url: str, *, encrypted: bool, local: bool
) -> None:
    assert (is_encrypted(url), is_local(url)) == (encrypted, local)
    refused = refusal({"BUILDKITE_REST_API_ENDPOINT": url})
    assert (refused is None) == (encrypted or local)


def test_without_an_endpoint_it_is_buildkites_own() -> None:
    assert refusal({}) is None
    assert address(BUILD_812, BUILD) == (
        "https://api.buildkite.com/v2/organizations/acme/pipelines/a%2F..%2Fb/builds/812"
    )
