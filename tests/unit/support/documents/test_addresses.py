# SPDX-License-Identifier: Apache-2.0
"""Links that lead nowhere, and anchors by the rules of GitHub."""

import pytest

from tests.support.documents.addresses import anchors, mistake_in_link, slug_of
from tests.support.documents.page import parse_page

PAGE = """# A page

## Once & again

### <a id="a/b"></a>`a/b`

## Once & again
"""


def test_anchors_follow_github() -> None:
    assert anchors(parse_page("docs/page.md", PAGE)) == {
        "a-page",
        "once--again",
        "once--again-1",
        "ab",
        "a/b",
    }
    assert slug_of("What's `new`, in 2.0?") == "whats-new-in-20"


@pytest.mark.parametrize(
    ("target", "mistake"),
    [
        ("nowhere.md", "does not exist"),
        ("design.md#nothing", "no such heading"),
        ("#nothing", "no such heading"),
        ("../../elsewhere.md", "out of the repository"),
        ("http://example.org", "not https"),
        ("https://exa mple/", "names no host"),
        ("mailto:nobody", "no address"),
    ],
)
def test_a_link_that_leads_nowhere_is_a_mistake(target: str, mistake: str) -> None:
    page = parse_page("docs/page.md", PAGE)

    assert mistake in (mistake_in_link(page, target) or "")


@pytest.mark.parametrize(
    "target", ["design.md#the-rooms", "#a/b", "../README.md", "https://a.org/"]
)
def test_a_link_that_leads_somewhere_is_none(target: str) -> None:
    assert mistake_in_link(parse_page("docs/page.md", PAGE), target) is None
