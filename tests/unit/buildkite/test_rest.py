# SPDX-License-Identifier: Apache-2.0
"""Where Buildkite's REST API is, and whether a token may be sent there."""

import pytest

from ci_doctor.buildkite.rest import BUILD, address, is_encrypted, is_local, refusal

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
