# SPDX-License-Identifier: Apache-2.0
from ci_doctor.render.layout import StyledTerminal


def test_without_colour_every_style_is_plain_text() -> None:
    terminal = StyledTerminal(80, colour=False)
    assert (terminal.bold("a"), terminal.dim("b"), terminal.path("c\nd")) == ("a", "b", "c d")


def test_with_colour_the_text_is_between_escape_sequences() -> None:
    terminal = StyledTerminal(80, colour=True)
    assert terminal.paint("a", "bold red") == "\x1b[1;31ma\x1b[0m"


def test_paragraphs_are_wrapped_with_an_indent() -> None:
    assert StyledTerminal(9, colour=False).indented("one two three") == ["  one two", "  three"]
