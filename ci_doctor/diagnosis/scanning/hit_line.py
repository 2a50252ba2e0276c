# SPDX-License-Identifier: Apache-2.0
"""Pure. From places of literals to the pieces of text that rules are tried on."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from ci_doctor.diagnosis.lines.clean_line import LONGEST_TEXT

# Of a longer line a literal is read with this much before it, and up to LONGEST_TEXT in all.
_BEFORE_BYTES = 500
# A literal that is further from the start of a piece gets a piece of its own.
_REACH_BYTES = 1500


class Piece(Struct, frozen=True):
    """What to try rules on: `content[start:end]` of a block, without its newline.

    It is a line of at most 2,000 bytes. Of a longer one it is what one update of a progress bar has
    written (between carriage returns), or the surroundings of a literal: then `is_cut`. literals:
    those that it holds.
    """

    start: int
    end: int
    is_cut: bool
    literals: tuple[int, ...]


def pieces(content: bytes, places: Iterable[tuple[int, int]]) -> Iterator[Piece]:
    """The pieces of `content` for the literals at `places`: (position, literal), sorted."""
    start = end = reach = -1
    is_cut = False
    literals: list[int] = []
    for position, literal in places:
        if position >= reach:
            if literals:
                yield Piece(start, end, is_cut, tuple(literals))
            start, end, is_cut = _bounds(content, position)
            reach = end
            if end == start + LONGEST_TEXT:
                reach = start + _REACH_BYTES
            literals = []
        literals.append(literal)
    if literals:
        yield Piece(start, end, is_cut, tuple(literals))


def _bounds(content: bytes, position: int) -> tuple[int, int, bool]:
    """Where the piece with `position` begins and ends, and whether it begins inside a line."""
    first = content.rfind(b"\n", max(0, position - LONGEST_TEXT), position) + 1
    if first > 0 or position <= LONGEST_TEXT:
        last = content.find(b"\n", position, first + LONGEST_TEXT)
        if last < 0 and len(content) <= first + LONGEST_TEXT:
            last = len(content)
        if last >= 0:
            return first, last, False
    start, is_cut = _start(content, position)
    return start, _end(content, position, start + LONGEST_TEXT), is_cut


def _start(content: bytes, position: int) -> tuple[int, bool]:
    """Where the piece with `position` begins, and whether that is inside a line."""
    lowest = max(0, position - _REACH_BYTES + 1)
    newline = content.rfind(b"\n", lowest, position)
    carriage_return = content.rfind(b"\r", lowest, position)
    before = max(newline, carriage_return)
    if before >= 0:
        return before + 1, False
    if lowest == 0:
        return 0, False
    return position - _BEFORE_BYTES, True


def _end(content: bytes, position: int, highest: int) -> int:
    """Where the piece with `position` ends, at most at `highest`."""
    newline = content.find(b"\n", position, highest)
    end = min(highest, len(content))
    if newline >= 0:
        end = newline
    carriage_return = content.find(b"\r", position, end)
    if carriage_return >= 0:
        end = carriage_return
    return end
