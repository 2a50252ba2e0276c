# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of a history: tests against time, as a heat strip."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.model.facts.history import ColumnFacts, StripRow
from ci_doctor.model.outcome import Report
from ci_doctor.render.formatting import percent
from ci_doctor.render.headline import worst_first
from ci_doctor.render.html.templating import page, part, sheet
from ci_doctor.render.safe_text import cleaned

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


STRIP_FACT = "history_strip"


def render(report: Report) -> str | None:
    """`report` as the page of its history; None if its facts are those of no history."""
    if STRIP_FACT not in report.facts:
        return None
    facts = report.facts
    view = _view(facts)
    if view is None:
        return None
    shown = cleaned(replace(report, facts={}))
    values = {
        "subject": "History of tests",
        "findings": worst_first(shown),
        "view": view,
        "branch": part(facts, "branch", str),
        "tests": part(facts, "tests", int) or 0,
        "attempts": part(facts, "attempts", int) or 0,
        "columns": part(facts, "columns", tuple[ColumnFacts, ...]) or (),
    }
    style = sheet("style.css.j2") + sheet("history.css.j2")
    script = sheet("history.js.j2")
    return page("history.html.j2", shown, style=style, script=script, values=values)


def _view(facts: Mapping[str, Any]) -> StripView | None:
    rows = part(facts, STRIP_FACT, tuple[StripRow, ...])
    begins = part(facts, "begins", tuple[str, ...])
    width_s = part(facts, "column_s", float)
    if not rows or not begins or width_s is None:
        return None
    return strip_view(rows, begins, width_s, part(facts, "infra", tuple[int, ...]) or ())
