# SPDX-License-Identifier: Apache-2.0
"""Pure. Lines and tables of a fixed width for a terminal, measured in cells: a wide character takes two."""

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from ci_doctor.model.table import Cell, Row, Table
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import figure
from ci_doctor.render.safe_text import one_line

# A command in backticks is one word: a line break inside it would be pasted with it.
_SENTENCE = 2_000
_NAME = 500  # a label, a path
_WORDS = re.compile(r"(?:`[^`\n]*`|[^\s`]|`)+")


def wrap(
    text: str, width: int, *, first: str = "", rest: str = "", breakable: bool = False
) -> list[str]:
    r"""`text` as lines of at most `width` cells, broken between words.

    `first` stands before the first line and `rest` before the others. Each `\n` begins a line
    anew. Spaces inside a line stay, so that columns which fit keep their form. A word wider than a
    line stays whole, unless `breakable`. More than 2,000 characters are cut.
    """
    # What remains of a broken word stands on lines that begin with `rest`.
    limit = width - cell_len(rest) if breakable else None
    lines: list[str] = []
    for paragraph in shortened(text, _SENTENCE).split("\n"):
        line = rest if lines else first
        has_words = False
        end = 0
        for start, word in _words(paragraph, limit):
            gap = paragraph[end:start]
            longer = line + gap + word
            # The first word stays even if it is too wide: a break before it would gain nothing.
            if has_words and cell_len(longer) > width:
                lines.append(line.rstrip())
                longer = rest + word
            line = longer
            has_words = True
            end = start + len(word)
        lines.append(line.rstrip())
    return lines


def _words(paragraph: str, limit: int | None) -> Iterator[tuple[int, str]]:
    """Words and their positions; with a `limit`, none is wider than that many cells."""
    for match in _WORDS.finditer(paragraph):
        start = match.start()
        word = match.group()
        while limit and cell_len(word) > limit:
            cut = _count_fitting(word, limit)
            yield start, word[:cut]
            start += cut
            word = word[cut:]
        yield start, word


def _count_fitting(word: str, limit: int) -> int:
    """How many characters of `word` fill `limit` cells; at least one."""
    cells = 0
    for position, character in enumerate(word):
        cells += cell_len(character)
        if cells > limit:
            # One at least, even if a wide character exceeds the limit: or a break would not end.
            return max(position, 1)
    return len(word)


def pad(text: str, width: int) -> str:
    """`text` with spaces after it, up to `width` cells."""
    return text + " " * (width - cell_len(text))


def widest(texts: list[str]) -> int:
    """The cells of the widest of `texts`; 0 for none."""
    return max(map(cell_len, texts), default=0)


def clip(text: str, width: int) -> str:
    """`text` cut to `width` cells, the last an ellipsis if something is missing."""
    if cell_len(text) <= width:
        return text
    # One cell is kept for the ellipsis.
    return text[: _count_fitting(text, width - 1)] + "…"


class StyledTerminal:
    """A terminal of `width` cells; without `colour` every style is plain text.

    Wrap text first and paint it then: an escape sequence takes no cells.
    """

    def __init__(self, width: int, *, colour: bool) -> None:
        self.width = width
        self._colour = colour

    def paint(self, text: str, style: str) -> str:
        """`text` in a style of rich, as "bold red"."""
        if not self._colour:
            return text
        # rich.style alone is 4 ms to import; rich.console would be 20.
        from rich.color import ColorSystem
        from rich.style import Style

        return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)

    def bold(self, text: str) -> str:
        """Titles, labels and the sentence of a finding."""
        return self.paint(text, "bold")

    def dim(self, text: str) -> str:
        """What is read last."""
        return self.paint(text, "dim")

    def path(self, text: str) -> str:
        """A file, on one line."""
        return self.paint(shortened(one_line(text), _NAME), "cyan")

    def indented(self, text: str) -> list[str]:
        """`text` as lines that begin with two spaces."""
        return wrap(text, self.width, first="  ", rest="  ")


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
    has_names = bool(table.columns)
    grid = [_TableLine(row, aligned=has_names) for row in table.rows]
    if has_names:
        # Labels have no name above them.
        names = tuple(Cell(value=name) for name in table.columns)
        grid.insert(0, _TableLine(Row(label="", cells=names), aligned=True))
    columns = _column_widths(grid)
    if has_names:
        columns = _with_room_for_names(columns, table.columns, width)
    lines: list[str] = []
    for line in grid:
        lines += _laid_out(line, columns, width)
    return lines


class _TableLine:
    """One row as texts: the label, then each cell."""

    def __init__(self, row: Row, *, aligned: bool) -> None:
        cells = [shortened(figure(cell), _SENTENCE) for cell in row.cells]
        self.texts = [shortened(row.label, _NAME if cells else _SENTENCE), *cells]
        # bool is a subclass of int, and is shown as a word.
        self.is_number = [False] + [
            aligned and isinstance(cell.value, int | float) and not isinstance(cell.value, bool)
            for cell in row.cells
        ]


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
            if index != last or line.is_number[index]:
                widths[index] = max(widths[index], widest([text]))
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
        start += _placed(text, cells, right=is_number) + _GAP
    # A number of the last column stands at its right, as those above and below it.
    if line.is_number[-1]:
        last = _placed(last, columns[len(before)], right=True)
    column = widest([start])
    # A short text stays beside its label even there: it needs no second line.
    if width - column < _NARROWEST and column + widest([last]) > width:
        return [start.rstrip(), *rest_of_label, *wrap(last, width, first=_BELOW, rest=_BELOW)]
    first, *others = wrap(last, width, first=start, rest=" " * column)
    return [first, *rest_of_label, *others]


def _placed(text: str, width: int, *, right: bool) -> str:
    # Not rjust(), which counts characters: a wide one takes two cells.
    return " " * (width - widest([text])) + text if right else pad(text, width)
