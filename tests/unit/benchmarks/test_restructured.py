"""The prose of reStructuredText pages."""

import pytest

from benchmarks.density.prose import sentences
from benchmarks.density.restructured import prose_of


@pytest.mark.parametrize(
    "rst",
    [
        pytest.param("Title\n=====\n", id="title"),
        pytest.param("=====\nTitle\n=====\n", id="title-with-overline"),
        pytest.param(".. code-block:: sh\n\n    echo Some. Code.\n\n    more", id="directive"),
        pytest.param(".. _target: https://example.invalid/\n", id="target"),
        pytest.param(".. a comment\n   of two lines\n", id="comment"),
        pytest.param("+---+---+\n| a | b |\n+---+---+\n", id="grid-table"),
        pytest.param(":orphan: yes\n", id="field"),
    ],
)
def test_markup_is_no_prose(rst: str) -> None:
    assert sentences(prose_of(f"{rst}\nOne sentence.\n")) == ["One sentence."]


def test_a_literal_block_is_left_out_and_its_introduction_kept() -> None:
    rst = "Run this::\n\n    tox run\n\n    tox list\n\nThen stop.\n"

    assert sentences(prose_of(rst)) == ["Run this:", "Then stop."]


def test_the_body_of_an_admonition_is_prose() -> None:
    assert sentences(prose_of(".. note::\n\n    Two words.\n")) == ["Two words."]


def test_roles_links_and_literals_become_their_text() -> None:
    rst = "See :ref:`the page <page>`, `a link <https://example.invalid>`_ and ``tox run``."

    assert sentences(prose_of(rst)) == ["See the page , a link and CODE."]


def test_a_list_keeps_its_items_apart() -> None:
    assert sentences(prose_of("* first\n* second\n  line\n")) == ["* first", "* second line"]
