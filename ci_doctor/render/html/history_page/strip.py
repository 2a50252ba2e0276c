# SPDX-License-Identifier: Apache-2.0
"""Pure. Rows of cells -> paths of a drawing, one for each kind of cell in a row."""

from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from ci_doctor.model.facts.history import StripRow
from ci_doctor.render.formatting import percent

# The kind of each character of StripRow.cells; `.` is drawn as nothing.
_KINDS = {
    "0": "pass",
    **dict.fromkeys("123", "some"),
    **dict.fromkeys("456", "half"),
    **dict.fromkeys("789", "most"),
    "i": "infra",
}


class PageStripRow(Struct, frozen=True, kw_only=True):
    """A test: paths by kind of cell, and what its columns say as text. order: as it is given."""

    order: int
    label: str
    suite: str
    name: str
    failed: str
    rate: str
    interval: str
    low: float
    mixed: int
    cells: str
    paths: tuple[tuple[str, str], ...]


class StripView(Struct, frozen=True, kw_only=True):
    """The strip: its rows, how many columns, the marks above them, days at its ends."""

    rows: tuple[PageStripRow, ...]
    count: int
    infra: str
    first: str
    last: str
    begins: tuple[str, ...]
    width_s: float


def strip_view(
    rows: Sequence[StripRow], begins: Sequence[str], width_s: float, infra: Sequence[int]
) -> StripView:
    """What the page draws."""
    marks = ["i" if at in infra else "." for at in range(len(begins))]
    return StripView(
        rows=tuple(_row(order, row) for order, row in enumerate(rows)),
        count=len(begins),
        infra=dict(_paths("".join(marks))).get("infra", ""),
        first=begins[0][:10],
        last=begins[-1][:10],
        begins=tuple(begin[:16].replace("T", " ") for begin in begins),
        width_s=width_s,
    )


def _row(order: int, row: StripRow) -> PageStripRow:
    rate = row.failure_rate
    return PageStripRow(
        order=order,
        label=f"{row.suite}::{row.name}" if row.suite else row.name,
        suite=row.suite,
        name=row.name,
        failed=f"{row.failed:,} of {row.passed + row.failed:,}",
        rate=percent(rate.rate),
        interval=f"{percent(rate.low)} to {percent(rate.high)}",
        low=rate.low,
        mixed=row.mixed_commits,
        cells=row.cells,
        paths=_paths(row.cells),
    )


def _paths(cells: str) -> tuple[tuple[str, str], ...]:
    """A path for each kind in `cells`; neighbours of a kind are one rectangle."""
    parts: dict[str, list[str]] = {}
    at = 0
    for kind, run in groupby(_KINDS.get(cell, "") for cell in cells):
        width = len(list(run))
        if kind:
            parts.setdefault(kind, []).append(f"M{at} 0h{width}v1h-{width}z")
        at += width
    return tuple((kind, "".join(each)) for kind, each in sorted(parts.items()))
