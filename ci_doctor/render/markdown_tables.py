# SPDX-License-Identifier: Apache-2.0
"""Pure. Table -> GFM, in pieces that can be left out one by one."""

from collections.abc import Iterator

from ci_doctor.model.table import Row, Table
from ci_doctor.render.formatting import figure
from ci_doctor.render.markup import block, fitted

LINE_BYTES = 1000
CELL_BYTES = 300


def table_texts(table: Table) -> Iterator[tuple[str, str]]:
    """The lines of `table`, each with the noun of what a reader misses without it.

    The title and the header belong to the first line.
    """
    columns = max((len(row.cells) for row in table.rows), default=0)
    columns = max(columns, len(table.columns))
    if not columns and _is_laid_out(table):
        yield _heading(table, 0) + block("\n".join(row.label for row in table.rows)), "table"
        return
    for index, row in enumerate(table.rows):
        text = _row(row, columns)
        # A heading alone would be a table without a line.
        if index == 0:
            text = _heading(table, columns) + text
        yield text, "line"


def table_line(cells: list[str]) -> str:
    """A row of a GFM table; each cell is Markdown already."""
    joined = " | ".join(cells)
    return f"| {joined} |"


def _is_laid_out(table: Table) -> bool:
    """Whether the lines hold columns of their own, which only a fixed width keeps."""
    return any("  " in row.label.strip() for row in table.rows)


def _heading(table: Table, columns: int) -> str:
    """The title, and above rows with cells the names of the columns, empty if they have none."""
    # Without a title, `****` would be shown as it stands.
    title = fitted(table.title, CELL_BYTES) or "…"
    heading = f"\n**{title}**\n\n"
    if not columns:
        return heading
    names = [fitted(name, CELL_BYTES) for name in table.columns]
    names += [""] * (columns - len(names))
    # GFM needs this line below the names, and the names above it.
    header = table_line(["", *names])
    delimiters = "".join(_delimiter(table, index) for index in range(columns))
    return f"{heading}{header}\n|---|{delimiters}\n"


def _delimiter(table: Table, index: int) -> str:
    """Figures stand at the right of a column with a name, texts at its left."""
    cells = [row.cells[index] for row in table.rows if index < len(row.cells)]
    are_texts = any(isinstance(cell.value, str | bool) for cell in cells)
    is_named = index < len(table.columns)
    return "--:|" if is_named and not are_texts else "---|"


def _row(row: Row, columns: int) -> str:
    """A row of a table; an item of a list if no row has cells."""
    label = fitted(row.label, LINE_BYTES)
    if not columns:
        return f"- {label}"
    figures = [fitted(figure(cell), LINE_BYTES) for cell in row.cells]
    missing = [""] * (columns - len(figures))
    return table_line([label, *figures, *missing])
