# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.drift.possible_secrets import plain_address


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("https://user:hunter2@example.org/x.git", "https://example.org/x.git"),
        ("https://hunter2@example.org:8443/x.whl", "https://example.org:8443/x.whl"),
        ("https://example.org/x.whl?sig=hunter2#egg=x", "https://example.org/x.whl"),
        ("ssh://git@example.org/x.git", "ssh://example.org/x.git"),
        ("https://[::1]:80/x", "https://[::1]:80/x"),
        ("file:///opt/src", "file:///opt/src"),
        ("https://[", ""),
        ("hunter2", ""),
    ],
)
def test_an_address_keeps_its_place_alone(address: str, plain: str) -> None:
    assert plain_address(address) == plain
