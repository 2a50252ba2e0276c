# SPDX-License-Identifier: Apache-2.0
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.scaffold.reading.shell_words import BARE, OPAQUE, QUOTED, commands_in


def words(line: str) -> list[tuple[str, ...]]:
    return [command.words for command in commands_in(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a b > log 2>&1 &", [("a", "b")]),
        ("a &> log b", [("a", "b")]),
        ("a>log b", [("a", "b")]),
        ("a >>log 2>/dev/null <in", [("a",)]),
        ("a; b && c || d | e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("(a b)", [("a", "b")]),
        ("a # b", [("a",)]),
        ("a b#c", [("a", "b#c")]),
        ("a 'b c' \"d e\" f\\ g", [("a", "b c", "d e", "f g")]),
        ('a --x=\'{"b": "$c"}\'', [("a", '--x={"b": "$c"}')]),
        ('a "it\'s" "\\"q\\"" "\\$x"', [("a", "it's", '"q"', "$x")]),
        ('a ""', [("a", "")]),
        ("a 'open", [("a", "open")]),
        ("", []),
    ],
)
def test_a_line_is_read_as_a_shell_reads_it(line: str, expected: list[tuple[str, ...]]) -> None:
    assert words(line) == expected


def test_what_runs_in_the_background_is_known() -> None:
    assert [command.in_background for command in commands_in("a & b; c && d &")] == [
        True,
        False,
        False,
        True,
    ]


def test_a_variable_keeps_whether_it_is_quoted_and_a_substitution_is_opaque() -> None:
    assert words('a "$B" $C ${D:-e f} $(date) `id` $ 5$') == [
        ("a", f"{QUOTED}B", f"{BARE}C", f"{BARE}{{D:-e f}}", OPAQUE, OPAQUE, "$", "5$"),
        ("date",),
    ]


def test_what_a_substitution_runs_is_a_command_too() -> None:
    assert words("A=$(b c | d) e $((1 + 2))") == [
        (f"A={OPAQUE}", "e", OPAQUE),
        ("b", "c"),
        ("d",),
    ]


@given(st.text(alphabet="ab '\"\\$`(){}<>|&;#\n\t", max_size=60))
def test_no_line_is_an_error(line: str) -> None:
    commands_in(line)


@given(st.lists(st.text(min_size=1, max_size=12).filter(lambda word: "\0" not in word), min_size=1))
def test_words_that_a_shell_quotes_come_back(given_words: list[str]) -> None:
    assert words(shlex.join(given_words)) == [tuple(given_words)]
