# SPDX-License-Identifier: Apache-2.0
from rich.cells import cell_len

from ci_doctor.render.layout import clip, pad, widest, wrap


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
