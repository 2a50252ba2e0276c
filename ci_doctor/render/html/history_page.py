# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of a history: tests against time, as a heat strip."""

from itertools import groupby

from msgspec.structs import replace

from ci_doctor.model.facts.history import ColumnFacts, StripRow
from ci_doctor.model.outcome import Report
from ci_doctor.render.formatting import cleaned, percent, worst_first
from ci_doctor.render.html.templating import Shown, page, part, sheet

# The kind of each character of StripRow.cells; `.` is drawn as nothing.
_KINDS = {
    "0": "pass",
    **dict.fromkeys("123", "some"),
    **dict.fromkeys("456", "half"),
    **dict.fromkeys("789", "most"),
    "i": "infra",
}
STRIP_FACT = "history_strip"


def render(report: Report) -> str | None:
    """`report` as the page of its history; None if its facts are those of no history."""
    facts = report.facts
    rows = part(facts, STRIP_FACT, tuple[StripRow, ...])
    begins = part(facts, "begins", tuple[str, ...])
    width_s = part(facts, "column_s", float)
    if not rows or not begins or width_s is None:
        return None
    infra = part(facts, "infra", tuple[int, ...]) or ()
    marks = "".join("i" if at in infra else "." for at in range(len(begins)))
    shown = cleaned(replace(report, facts={}))
    values = {
        "subject": "History of tests",
        "findings": worst_first(shown),
        "rows": [_row(order, row) for order, row in enumerate(rows)],
        "begins": [begin[:16].replace("T", " ") for begin in begins],
        # A mark above each column of infrastructure.
        "infra": dict(_paths(marks)).get("infra", ""),
        "width_s": width_s,
        "branch": part(facts, "branch", str),
        "tests": part(facts, "tests", int) or 0,
        "attempts": part(facts, "attempts", int) or 0,
        "columns": part(facts, "columns", tuple[ColumnFacts, ...]) or (),
    }
    style = sheet("style.css.j2") + sheet("history.css.j2")
    return page("history.html.j2", shown, style=style, script=sheet("history.js.j2"), values=values)


def _row(order: int, row: StripRow) -> Shown:
    """A test: paths by kind of cell, and what its columns say as text. order: as it is given."""
    rate = row.failure_rate
    return {
        "order": order,
        "label": f"{row.suite}::{row.name}" if row.suite else row.name,
        "suite": row.suite,
        "name": row.name,
        "failed": f"{row.failed:,} of {row.passed + row.failed:,}",
        "rate": percent(rate.rate),
        "interval": f"{percent(rate.low)} to {percent(rate.high)}",
        "low": rate.low,
        "mixed": row.mixed_commits,
        "cells": row.cells,
        "paths": _paths(row.cells),
    }


def _paths(cells: str) -> list[tuple[str, str]]:
    """A path for each kind in `cells`; neighbours of a kind are one rectangle."""
    parts: dict[str, str] = {}
    at = 0
    for kind, run in groupby(_KINDS.get(cell, "") for cell in cells):
        width = len(list(run))
        if kind:
            parts[kind] = f"{parts.get(kind, '')}M{at} 0h{width}v1h-{width}z"
        at += width
    return sorted(parts.items())
