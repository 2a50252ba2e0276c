# SPDX-License-Identifier: Apache-2.0
"""Pure. Tables -> lines of text in columns, for a terminal and for JUnit."""

from collections.abc import Sequence

from ci_doctor.model.table import Cell, Row, Table
from ci_doctor.render.formatting import figure
from ci_doctor.render.layout import pad, widest, wrap

_GAP = "  "
_INDENT = "  "
_BELOW = "    "  # of text that goes on below its own beginning
# A last column narrower than this is no column to read in: its text begins on a line of its own.
_NARROWEST = 24
# Labels get this much at least, even if columns with names then have no room.
_NARROWEST_LABEL = 24


def table_lines(table: Table, width: int) -> list[str]:
    """The rows of `table` as lines of `width` cells, or more if a word is wider.

    The title is left out. Labels and texts stand at the left of their column. Numbers stand at its
    right if the columns have names: without names the rows have nothing to do with each other. Text
    of the last column is broken between words and goes on below itself. So is a label, if columns
    with names had no room beside it. A row without cells is a paragraph.
    """
    rows = list(table.rows)
    if table.columns:
        rows.insert(0, _names(table))
    has_names = bool(table.columns)
    grid = [_TableLine(row, aligned=has_names) for row in rows]
    columns = _column_widths(grid)
    if has_names:
        columns = _with_room_for_names(columns, table.columns, width)
    lines: list[str] = []
    for line in grid:
        lines += _laid_out(line, columns, width)
    return lines


def _names(table: Table) -> Row:
    """The names of the columns as a row; labels have no name above them."""
    cells = [Cell(value=name) for name in table.columns]
    return Row(label="", cells=tuple(cells))


class _TableLine:
    """One row as texts: the label, then each cell."""

    def __init__(self, row: Row, *, aligned: bool) -> None:
        self.texts = [row.label]
        self.is_number = [False]
        for cell in row.cells:
            self.texts.append(figure(cell))
            self.is_number.append(aligned and _is_number(cell))


def _is_number(cell: Cell) -> bool:
    # bool is a subclass of int, and is shown as a word.
    if isinstance(cell.value, bool):
        return False
    return isinstance(cell.value, int | float)


def _column_widths(lines: Sequence[_TableLine]) -> list[int]:
    """The cells that each column takes. The last text of a row needs no room to its right."""
    widths: list[int] = []
    for line in lines:
        last = len(line.texts) - 1
        # A paragraph has no columns: it would widen the first one to its own length.
        if last == 0:
            continue
        for index, text in enumerate(line.texts):
            if index == len(widths):
                widths.append(0)
            if index == last and not line.is_number[index]:
                continue
            cells = widest([text])
            widths[index] = max(widths[index], cells)
    return widths


def _with_room_for_names(columns: Sequence[int], names: Sequence[str], width: int) -> list[int]:
    """The columns with the last name beside the others; labels get what that leaves of `width`."""
    label, *others = columns
    last = widest([names[-1]])
    if len(others) == len(names):
        # Numbers stand in the last column: they end where its name does.
        last = max(last, others.pop())
    taken = len(_INDENT) + sum(others) + last + len(_GAP) * len(names)
    room = max(_NARROWEST_LABEL, width - taken)
    return [min(label, room), *others, last]


def _laid_out(line: _TableLine, columns: Sequence[int], width: int) -> list[str]:
    """One row as lines of text: its last text is wrapped beside the others, or below them."""
    *before, last = line.texts
    if not before:
        return wrap(last, width, first=_INDENT, rest=_BELOW)
    before[0], *below_label = wrap(before[0], columns[0], rest=_INDENT)
    rest_of_label = [_INDENT + text for text in below_label]
    start = _INDENT
    for text, cells, is_number in zip(before, columns, line.is_number, strict=False):
        placed = _placed(text, cells, right=is_number)
        start += placed + _GAP
    # A number of the last column stands at its right, as those above and below it.
    if line.is_number[-1]:
        cells = columns[len(before)]
        last = _placed(last, cells, right=True)
    column = widest([start])
    is_narrow = width - column < _NARROWEST
    is_wider = column + widest([last]) > width
    # A short text stays beside its label even there: it needs no second line.
    if is_narrow and is_wider:
        below = wrap(last, width, first=_BELOW, rest=_BELOW)
        return [start.rstrip(), *rest_of_label, *below]
    first, *others = wrap(last, width, first=start, rest=" " * column)
    return [first, *rest_of_label, *others]


def _placed(text: str, width: int, *, right: bool) -> str:
    if right:
        # Not rjust(), which counts characters: a wide one takes two cells.
        gap = " " * (width - widest([text]))
        return gap + text
    return pad(text, width)
