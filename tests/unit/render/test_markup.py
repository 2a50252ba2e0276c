# SPDX-License-Identifier: Apache-2.0
"""Tables are tables in GFM: figures keep their columns, and no cell ends early."""

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options

from ci_doctor.model.outcome import Table, row, seconds
from ci_doctor.render.markdown import PagePiece, is_plain_path, page, table_texts


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("samples.jsonl", True),
        ("logs/A1/vllm-1.log", True),
        ("/tmp/a.log", False),
        ("../a.log", False),
        ("a b.log", False),
        ("a?x=1", False),
        ("javascript:alert(1)", False),
        ("", False),
    ],
)
def test_a_plain_path_lies_below_the_report_and_needs_no_escapes(path: str, plain: bool) -> None:
    assert is_plain_path(path) is plain


def test_an_empty_line_counts_as_the_byte_that_it_takes() -> None:
    pieces = [PagePiece(rank=0, text=text, noun="line") for text in ("", "", "a", "", "b")]
    whole = "h\n\n\na\n\nb\n"
    assert page("h", pieces, len(whole)) == whole
    assert "Left out" in page("h", pieces, len(whole) - 1)


def lines(table: Table) -> list[str]:
    return "\n".join(text for text, _ in table_texts(table)).split("\n")


def cells(table: Table) -> list[str]:
    """The cells that a reader of GFM sees, tags removed."""
    html = cmarkgfm.github_flavored_markdown_to_html(
        "\n".join(lines(table)), Options.CMARK_OPT_UNSAFE
    )
    return [piece.partition(">")[2].partition("</td>")[0] for piece in html.split("<td")[1:]]


def test_labelled_values_are_a_table_without_names() -> None:
    table = Table(title="t", rows=(row("took", seconds(1.5)), row("model", "m", 3)))

    assert lines(table)[3:] == [
        "|  |  |  |",
        "|---|---|---|",
        "| took | 1\\.5 s |  |",
        "| model | m | 3 |",
    ]


def test_figures_stand_at_the_right_and_texts_at_the_left() -> None:
    table = Table(title="t", columns=("p", "why"), rows=(row("a", 1, "x"), row("b", None, "y")))

    assert "|---|--:|---|" in lines(table)


@pytest.mark.parametrize("hostile", ["a|b", "`a|b`", "\\|", "``", "a\nb", "<b>", "`", "|", "\\"])
def test_a_cell_stays_one_cell(hostile: str) -> None:
    table = Table(title="t", columns=("x",), rows=(row(hostile, hostile),))

    assert len(cells(table)) == 2


def test_plain_lines_are_a_list() -> None:
    assert lines(Table(title="t", rows=(row("one"), row("two"))))[3:] == ["- one", "- two"]
