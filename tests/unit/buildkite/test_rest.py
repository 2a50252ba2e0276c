# SPDX-License-Identifier: Apache-2.0
"""Where Buildkite's REST API is, and whether a token may be sent there."""

import pytest

from ci_doctor.buildkite.rest import BUILD, address, refusal

BUILD_812 = {
    "BUILDKITE_ORGANIZATION_SLUG": "acme",
    "BUILDKITE_PIPELINE_SLUG": "a/../b",
    "BUILDKITE_BUILD_NUMBER": "812",
}


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://api.buildkite.com", True),
        ("http://api.buildkite.com", False),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080/v2", True),
        ("http://localhost", True),
        ("http://localhost.evil.test", False),
        ("http://127.0.0.1@evil.test", False),
        ("https://", False),
        ("http://[odd", False),
        ("file:///etc/passwd", False),
    ],
)
def test_a_token_goes_to_an_address_with_encryption_or_on_this_machine(
    url: str, *, is_safe: bool
) -> None:
    assert (refusal({"BUILDKITE_REST_API_ENDPOINT": url}) is None) == is_safe


def test_without_an_endpoint_it_is_buildkites_own() -> None:
    assert refusal({}) is None
    assert address(BUILD_812, BUILD) == (
        "https://api.buildkite.com/v2/organizations/acme/pipelines/a%2F..%2Fb/builds/812"
    )
