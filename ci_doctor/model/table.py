# SPDX-License-Identifier: Apache-2.0
"""Pure. Tables as values: labels, values and units. Each renderer lays them out in its own way."""

from enum import StrEnum

from msgspec import Struct

Scalar = str | int | float | bool | None


class Unit(StrEnum):
    """What a number counts; it decides how a renderer formats the number."""

    SECONDS = "s"
    BYTES = "B"
    SHARE = "share"  # 0 to 1, shown in percent


class Cell(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value. `unit` is None for text and for plain numbers."""

    value: Scalar
    unit: Unit | None = None


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A label and its values. A row without cells is a line of text."""

    label: str
    cells: tuple[Cell, ...] = ()


class Table(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A titled block of rows, in the order to be read.

    `columns` name the cells; the label's own column has no name. Empty `columns` make a list of
    labelled values, which needs no header. `is_aside`: it is less urgent than the findings, and
    stands below them. `is_detail`: of a pass, a terminal leaves it to the report's files.
    `is_verbatim`: the rows are lines to copy, and stand as they are.
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    is_aside: bool = False
    is_detail: bool = False
    is_verbatim: bool = False


def seconds(value: float | None) -> Cell:
    """A duration in seconds."""
    return Cell(value=value, unit=Unit.SECONDS)


def size(value: int | None) -> Cell:
    """A size in bytes."""
    return Cell(value=value, unit=Unit.BYTES)


def share(value: float | None) -> Cell:
    """A share between 0 and 1."""
    return Cell(value=value, unit=Unit.SHARE)


def row(label: str, *values: Cell | Scalar) -> Row:
    """A row; plain values become cells without a unit."""
    cells = (each if isinstance(each, Cell) else Cell(value=each) for each in values)
    return Row(label=label, cells=tuple(cells))


def text_table(title: str, lines: tuple[str, ...]) -> Table:
    """A table of lines of text."""
    return Table(title=title, rows=tuple(Row(label=line) for line in lines))
