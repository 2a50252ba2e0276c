# SPDX-License-Identifier: Apache-2.0
"""Text whose pieces are marked by what they are, so that a terminal may colour them. Pure."""

from enum import StrEnum
from typing import NamedTuple


class Mark(StrEnum):
    """What a piece of a line is."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    LEFT = "left"  # only in the first answer
    RIGHT = "right"  # only in the second


class MarkedText(NamedTuple):
    """A piece of a line."""

    text: str
    mark: Mark = Mark.PLAIN


Line = tuple[MarkedText, ...]


class AnswerBlock(NamedTuple):
    """A titled block of lines."""

    title: str
    lines: tuple[Line, ...]


def plain(line: Line) -> str:
    """A line without its marks."""
    return "".join(piece.text for piece in line).rstrip()
