# SPDX-License-Identifier: Apache-2.0
"""Pure. Lines and tables of a fixed width for a terminal, measured in cells: a wide character takes two."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len

from ci_doctor.model.outcome import Cell, Row, Table
from ci_doctor.model.words import shortened
from ci_doctor.render.formatting import figure, one_line

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
            # A path or a test's name is broken between its parts, if one ends there.
            ends = (word.rfind(mark, cut // 2, cut) + 1 for mark in "/:_-.")
            cut = next((end for end in ends if end), cut)
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

    Wrap text first and paint it then: an escape sequence takes no cells. has_edge: long words of a
    table are broken there. A log and a file have none, and a path in them stays whole.
    """

    def __init__(self, width: int, *, colour: bool, has_edge: bool = False) -> None:
        self.width = width
        self.has_edge = has_edge
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
# What the last column gets if its text is that long, and a column that is made narrower for it keeps.
_LAST_COLUMN = 24
_NARROWEST = 6
_NARROWEST_LABEL = 16


def table_lines(table: Table, width: int, *, breakable: bool = False) -> list[str]:
    """The rows of `table` as lines of `width` cells; more only if it has very many columns.

    Words that are wider than their column widen it, unless they are `breakable`.

    The title is left out. Labels and texts stand at the left of their column. Numbers stand at its
    right if the columns have names: without names the rows have nothing to do with each other. A
    text goes on below itself, in its own column; the widest columns are made narrower if the last
    one had no room. A row without cells is a paragraph.
    """
    if table.is_verbatim:
        return [row.label for row in table.rows]
    has_names = bool(table.columns)
    grid = [_TableLine(row, aligned=has_names) for row in table.rows]
    if has_names:
        # Labels have no name above them.
        names = tuple(Cell(value=name) for name in table.columns)
        grid.insert(0, _TableLine(Row(label="", cells=names), aligned=True))
    columns = _column_widths(grid, width, breakable=breakable)
    return [text for line in grid for text in _laid_out(line, columns, width, breakable=breakable)]


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


def _column_widths(grid: Sequence[_TableLine], width: int, *, breakable: bool) -> list[int]:
    """The cells that each column takes; the last text of a row takes what is left."""
    # A paragraph has no columns: it would widen the first one to its own length.
    rows = [line for line in grid if len(line.texts) > 1]
    count = max((len(line.texts) for line in rows), default=0)
    widths, lasts = [0] * count, [0] * count
    least = [_NARROWEST_LABEL, *[_NARROWEST] * count]
    numbers = {index for line in rows for index, is_one in enumerate(line.is_number) if is_one}
    for line in rows:
        last = len(line.texts) - 1
        for index, text in enumerate(line.texts):
            cells = widest([text])
            longest = widest([word for _, word in _words(text, None)])
            if index == last and index not in numbers:
                enough = max(_LAST_COLUMN, min(longest, width // 2))
                lasts[index] = max(lasts[index], min(cells, enough))
                continue
            widths[index] = max(widths[index], cells)
            if index in numbers:
                longest = cells
            if index in numbers or not breakable or "`" in text:
                least[index] = max(least[index], longest)
    for index in reversed(range(count)):
        # A column that fits is never the reason to make one before it narrower.
        _make_room(widths, lasts, least, index, width)
    return widths


def _make_room(
    widths: list[int], lasts: list[int], least: Sequence[int], index: int, width: int
) -> None:
    """Make columns up to `index` narrower, the widest first, until that one ends within `width`."""

    def over() -> int:
        taken = len(_INDENT) + sum(widths[:index]) + len(_GAP) * index
        return taken + max(widths[index], lasts[index]) - width

    # The last text only if nothing else can be narrower.
    for cells, first in ((widths, 0), (lasts, index)):
        while over() > 0:
            wide = [each for each in range(first, index + 1) if cells[each] > least[each]]
            if not wide:
                break
            cells[max(wide, key=cells.__getitem__)] -= 1


def _laid_out(
    line: _TableLine, columns: Sequence[int], width: int, *, breakable: bool
) -> list[str]:
    """One row as lines of text, each of its texts in its own column."""
    if len(line.texts) == 1:
        return wrap(line.texts[0], width, first=_INDENT, rest=_BELOW)
    last = len(line.texts) - 1
    cells: list[list[str]] = []
    start = len(_INDENT)
    for index, text in enumerate(line.texts):
        if line.is_number[index]:
            # Not rjust(), which counts characters: a wide one takes two cells.
            cells.append([" " * (columns[index] - widest([text])) + text])
        else:
            narrowest = _NARROWEST if breakable or index < last else _LAST_COLUMN
            room = max(columns[index] if index < last else width - start, narrowest)
            rest = _INDENT if index == 0 else ""
            # A command stays whole, to be pasted.
            is_broken = breakable and "`" not in text
            cells.append(wrap(text, room, rest=rest, breakable=is_broken))
        start += columns[index] + len(_GAP)
    return [
        _INDENT + _GAP.join(map(pad, texts, columns)).rstrip()
        for texts in zip_longest(*cells, fillvalue="")
    ]
