# SPDX-License-Identifier: Apache-2.0
"""The site links names in its pages to the pages made from code, which no committed page links to."""

from collections.abc import Mapping

import pytest

from docs.site.made_links import with_links
from docs.site.made_pages import PAGES, places
from tests.support.documents.addresses import anchors
from tests.support.documents.page import read_page

PLACES: Mapping[str, str] = {
    "`build/missing-report`": "docs/findings.md#build/missing-report",
    "`ci-doctor explain WORD`": "docs/glossary.md",
    "*arms*": "docs/glossary.md#arm",
}


def linked(text: str, page: str = "docs/build.md") -> str:
    return with_links(text, page, PLACES)


@pytest.mark.parametrize(
    ("text", "site"),
    [
        (
            "| nothing | `build/missing-report` |",
            "| nothing | [`build/missing-report`](findings.md#build/missing-report) |",
        ),
        (
            "(`ci-doctor explain\nWORD`), the *arms*.",
            "([`ci-doctor explain\nWORD`](glossary.md)), the [*arms*](glossary.md#arm).",
        ),
    ],
)
def test_a_rule_a_command_and_a_word_in_italics_are_links(text: str, site: str) -> None:
    assert linked(text) == site


@pytest.mark.parametrize(
    ("page", "address"),
    [
        ("README.md", "docs/glossary.md#arm"),
        ("docs/how-do-i/how-long.md", "../glossary.md#arm"),
        ("examples/lint/README.md", "../../docs/glossary.md#arm"),
    ],
)
def test_a_link_leads_from_the_folder_of_its_page(page: str, address: str) -> None:
    assert linked("*arms*", page) == f"[*arms*]({address})"


@pytest.mark.parametrize(
    "text",
    [
        "```sh\n# *arms*\n\n`build/missing-report`\n```\n",
        "````md\n```\n*arms*\n```\n````\n",
        "1. Item\n\n   ~~~\n   *arms*\n   ~~~\n",
        "## The *arms* and `build/missing-report`\n",
        "[the *arms* of\n`build/missing-report`](pytest.md)",
        "<!-- run *arms* -->",
        "**arms**, arms, `*arms*`, `build/missing`, 2*arms*3",
    ],
)
def test_blocks_headings_links_and_other_names_stay_as_they_are(text: str) -> None:
    assert linked(text) == text
    assert linked(f"{text}\n*arms*\n") == f"{text}\n[*arms*](glossary.md#arm)\n"


def test_a_made_page_has_no_link_to_itself() -> None:
    text = "`ci-doctor explain WORD` prints the same."

    assert linked(text, "docs/glossary.md") == text


def test_every_place_is_a_heading_of_a_made_page() -> None:
    known = {name: anchors(read_page(name)) for name in PAGES}

    for address in places().values():
        name, _, anchor = address.partition("#")
        assert not anchor or anchor in known[name], address


def test_every_made_page_has_a_name_that_leads_to_it() -> None:
    assert set(PAGES) == {address.partition("#")[0] for address in places().values()}
