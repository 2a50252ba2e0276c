# SPDX-License-Identifier: Apache-2.0
import pytest
from rich.cells import cell_len

from ci_doctor.model.outcome import Table, row, seconds, size
from ci_doctor.render.layout import StyledTerminal, clip, pad, table_lines, widest, wrap


def test_lines_are_broken_between_words_and_continue_below_their_text() -> None:
    assert wrap("one two three four", 11, first="- ", rest="  ") == [
        "- one two",
        "  three",
        "  four",
    ]


def test_a_command_in_backticks_is_one_word() -> None:
    assert wrap("run `a b c d` now", 8) == ["run", "`a b c d`", "now"]


def test_a_long_word_stays_whole_unless_it_may_be_broken() -> None:
    assert wrap("x" * 12, 5) == ["x" * 12]
    assert wrap("x" * 12, 5, breakable=True) == ["xxxxx", "xxxxx", "xx"]


def test_columns_that_fit_keep_their_form() -> None:
    assert wrap("a   b\nc", 20, first="  ", rest="    ") == ["  a   b", "    c"]


def test_a_wide_character_takes_two_cells() -> None:
    assert widest(["日本", "abc"]) == 4
    assert pad("日", 4) == "日  "
    assert clip("日本語", 5) == "日本…"
    assert cell_len(clip("日本語", 4)) <= 4


def test_without_colour_every_style_is_plain_text() -> None:
    terminal = StyledTerminal(80, colour=False)
    assert (terminal.bold("a"), terminal.dim("b"), terminal.path("c\nd")) == ("a", "b", "c d")


def test_labels_stand_at_the_left_and_numbers_at_the_right_of_their_column() -> None:
    table = Table(
        title="Services",
        columns=("ready after", "log"),
        rows=(row("vllm", seconds(192.4), size(340_123)), row("kv", seconds(0.04), None)),
    )
    assert table_lines(table, 80) == [
        "        ready after  log",
        "  vllm   3 min 12 s  340 kB",
        "  kv          40 ms  –",
    ]


def test_a_row_without_cells_is_a_paragraph() -> None:
    table = Table(title="Notes", rows=(row("a sentence that is longer than one line"),))
    assert table_lines(table, 24) == ["  a sentence that is", "    longer than one line"]


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize(
    "table",
    [
        Table(title="T", rows=(row("a label of some length " * 3, "words that need some room"),)),
        Table(title="T", rows=(row("/srv/agents/gpu-7/builds/.venv/bin/python", "from $VIRTUAL_ENV " * 4),)),
        Table(title="T", rows=(row("B2", "open: /tmp/" + "a-long-name/" * 12 + "file"),)),
        Table(
            title="T",
            columns=("probability", "failed", "kind", "since"),
            rows=(row("tests/serving/test_prefix_cache.py::test_long[fp8-tp2]", 0.5, "3 of 1,200", "order of the tests", "2026-11-02 10:12"),),
        ),
    ],
)  # fmt: skip
def test_a_table_fits_and_each_text_goes_on_in_its_own_column(table: Table, width: int) -> None:
    lines = table_lines(table, width, breakable=True)
    texts = table.rows[0].cells[-1].value

    assert widest(lines) <= width
    first = next(line for line in lines if str(texts).split()[0][:5] in line)
    column = first.index(str(texts).split()[0][:5])
    # Nothing of the last text stands to the left of its column, and the label goes on in its own.
    assert all(line[column - 2 : column].strip() == "" for line in lines if len(line) > column)
    assert len(lines[-1]) > column or lines[-1].startswith("    ")


def test_a_label_that_leaves_no_room_for_named_columns_goes_on_below_itself() -> None:
    table = Table(
        title="Where it differs",
        columns=("result", "differing", "pairs"),
        rows=(
            row("the request alone, first 8 of 32 characters, one pass", "equal", "0 of 1", 1),
            row("all requests", "differs", "1 of 1", 24),
        ),
    )
    assert table_lines(table, 60) == [
        "                                   result   differing  pairs",
        "  the request alone, first 8 of    equal    0 of 1         1",
        "    32 characters, one pass",
        "  all requests                     differs  1 of 1        24",
    ]
