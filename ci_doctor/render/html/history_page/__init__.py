# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of a history: tests against time, as a heat strip."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ci_doctor.model.facts.history import ColumnFacts, StripRow
from ci_doctor.model.report import Report
from ci_doctor.render.headline import worst_first
from ci_doctor.render.html.facts import part
from ci_doctor.render.html.history_page.strip import StripView, strip_view
from ci_doctor.render.html.templating import page, sheet
from ci_doctor.render.safe_text import cleaned

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
