# SPDX-License-Identifier: Apache-2.0
from ci_doctor.model.table import Table, row, seconds, size
from ci_doctor.render.layout import table_lines


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


def test_text_that_has_no_room_in_its_column_begins_on_a_line_of_its_own() -> None:
    table = Table(title="T", rows=(row("a label of some length", "words that need some room"),))
    assert table_lines(table, 40) == [
        "  a label of some length",
        "    words that need some room",
    ]


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
