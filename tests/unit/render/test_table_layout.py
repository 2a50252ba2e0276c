# SPDX-License-Identifier: Apache-2.0
from ci_doctor.model.table import Table, row, seconds, size
from ci_doctor.render.table_layout import table_lines


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
