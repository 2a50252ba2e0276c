# SPDX-License-Identifier: Apache-2.0
"""Command lines that are broken to fit."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.model.words import broken_line, did_you_mean, nearest


@pytest.mark.parametrize(
    ("word", "names", "hint"),
    [
        ("retrys", ["requests", "retries"], "did you mean `retries`?"),
        ("x", ["b", "a"], "known names: a, b"),
        ("x", [], None),
        ("", ["a"], "known names: a"),
    ],
)
def test_the_nearest_name_or_all_of_them(word: str, names: list[str], hint: str | None) -> None:
    assert did_you_mean(word, names) == hint
    assert did_you_mean(word, iter(reversed(names))) == hint


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("wiat", "wait"),
        ("rnu", "run"),
        ("lauch", "launch"),
        ("corectness", "correctness"),
        ("setup_env", "setup-env"),
        ("setupenv", "setup-env"),
        ("expl", "explain"),
        ("--report-dri", "--report-dir"),
        ("regresion", "regression"),
        ("PASS", "pass"),
        ("preload/shadow", "preload/shadowed"),
    ],
)
def test_a_slip_is_near(word: str, name: str) -> None:
    assert nearest(word, [name, "zzz", "q"]) == name


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("42", "2"),
        ("42", "142"),
        ("--determinism", "--retries"),
        ("server.py", "replay"),
        ("python", "option"),
        ("vllm", "void"),
        ("75", "85"),
        ("strict", "restart"),
    ],
)
def test_what_only_shares_some_letters_is_not(word: str, name: str) -> None:
    assert nearest(word, [name]) is None


WORDS = st.lists(st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1, max_size=12))


@given(WORDS, st.integers(min_value=10, max_value=100))
def test_the_pieces_are_the_same_command(words: list[str], width: int) -> None:
    line = shlex.join(words)

    pieces = broken_line(line, width)

    # To a shell, a backslash at the end of a line is nothing.
    joined = "\n".join(pieces).replace(" \\\n", " ")
    assert shlex.split(joined) == words


def test_a_line_that_fits_stays_as_it_is() -> None:
    assert broken_line("ci-doctor explain   75", 22) == ["ci-doctor explain   75"]


def test_no_piece_is_longer_than_the_width_if_its_words_are_not() -> None:
    line = "ci-doctor correctness --baseline 'a b' --requests prompts.jsonl --json --budget 25m"

    pieces = broken_line(line, 36)

    assert pieces == [
        "ci-doctor correctness \\",
        "  --baseline 'a b' \\",
        "  --requests prompts.jsonl --json \\",
        "  --budget 25m",
    ]


def test_a_word_in_quotes_is_never_broken() -> None:
    assert broken_line("x 'a b c d e f g h'", 8) == ["x \\", "  'a b c d e f g h'"]
