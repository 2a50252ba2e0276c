# SPDX-License-Identifier: Apache-2.0
from ci_doctor.model.table import Cell, Row, Table, Unit, row, seconds, share, size, text_table


def test_plain_values_of_a_row_become_cells_without_a_unit() -> None:
    assert row("ready", seconds(1.5), "yes", None) == Row(
        label="ready",
        cells=(Cell(value=1.5, unit=Unit.SECONDS), Cell(value="yes"), Cell(value=None)),
    )


def test_a_cell_knows_what_it_counts() -> None:
    assert (size(3).unit, share(0.5).unit) == (Unit.BYTES, Unit.SHARE)


def test_lines_of_text_are_rows_without_cells() -> None:
    assert text_table("Log", ("a", "b")) == Table(title="Log", rows=(row("a"), row("b")))
