# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.session.about import web_address


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("git@github.com:vllm-project/vllm.git", "https://github.com/vllm-project/vllm"),
        ("ssh://git@github.com:22/o/r.git", "https://github.com/o/r"),
        ("git://host.org/o/r", "https://host.org/o/r"),
        ("https://github.com/o/r.git/", "https://github.com/o/r"),
        ("https://user:token@gitlab.org/g/s/r.git", "https://gitlab.org/g/s/r"),
        ("http://host.org:8080/o/r", "http://host.org:8080/o/r"),
        ("/srv/git/r.git", None),
        ("../r", None),
        ("file:///srv/r.git", None),
        ("javascript:alert(1)", None),
        ("https://host.org/o/r?x=<b>", "https://host.org/o/r"),
        ("https://host.org/", None),
        ("https://[", None),
        ("", None),
    ],
)
def test_a_remote_leads_to_its_pages_or_nowhere(remote: str, address: str | None) -> None:
    assert web_address(remote) == address
