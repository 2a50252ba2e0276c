# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.about import About
from ci_doctor.render.headline import links

COMMIT = "223781099f2c1b0e5d6a7b8c9d0e1f2a3b4c5d6e"


@pytest.mark.parametrize(
    ("repository", "commit", "branch"),
    [
        ("https://github.com/o/r", f"/commit/{COMMIT}", "/tree/fix/a%20b"),
        ("https://gitlab.example.org/g/s/r", f"/-/commit/{COMMIT}", "/-/tree/fix/a%20b"),
        ("https://bitbucket.org/o/r", f"/commits/{COMMIT}", "/branch/fix/a%20b"),
    ],
)
def test_each_host_has_its_paths(repository: str, commit: str, branch: str) -> None:
    found = links(About(repository=repository, commit=COMMIT, branch="fix/a b"))

    assert [(each.text, each.address) for each in found] == [
        (COMMIT[:12], repository + commit),
        ("fix/a b", repository + branch),
    ]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "https://user:pw@host/x",
        'https://host/"onclick="x',
        "https://host/a b",
        "https://[",
        "//host/x",
        "",
    ],
)
def test_only_a_plain_web_address_is_a_link(address: str) -> None:
    about = About(build=1, build_url=address, repository=address, commit=COMMIT, branch="main")

    assert [each.address for each in links(about)] == [None, None, None]


def test_what_is_no_commit_is_no_link() -> None:
    (link,) = links(About(repository="https://github.com/o/r", commit="HEAD"))

    assert link.address is None


def test_what_is_unknown_is_left_out() -> None:
    assert links(About()) == ()
