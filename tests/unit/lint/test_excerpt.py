# SPDX-License-Identifier: Apache-2.0
"""How a line is cut: no part of a word stays that a redactor would know as a whole."""

import pytest

from ci_doctor.lint.excerpt import excerpt_of


@pytest.mark.parametrize(
    ("line", "excerpt"),
    [
        ("  curl a  ", "curl a"),
        ("curl abcd", "curl abcd"),
        ("curl abcde", "curl …"),
        ("curl -s abc", "curl -s …"),
        ("curl abcd  e", "curl abcd …"),
        ("curl\tabcdef", "curl …"),
        ("abcdefghij", "…"),
    ],
)
def test_a_line_is_cut_between_two_words(line: str, excerpt: str) -> None:
    assert excerpt_of(line, 9) == excerpt
