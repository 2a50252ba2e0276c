# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of one report, and the page of a history: tests against time, as a heat strip."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    AnswerMatrix,
    DivergencePositions,
    FactDifference,
    IdentityFacts,
    LevelFacts,
    PermutationTest,
)
from ci_doctor.model.facts.history import ColumnFacts, StripRow
from ci_doctor.model.facts.launch import LeftBehind, LeftThing, StopResult
from ci_doctor.model.outcome import Report
from ci_doctor.render.formatting import cleaned, links, percent, probability, worst_first
from ci_doctor.render.html import matrix
from ci_doctor.render.html.pairs import MEANINGS, pair
from ci_doctor.render.html.templating import Shown, page, part, sheet, value

_EXACT = "byte for byte"
# By the level of the gate.
_SAME = {"words": "in words", "tokens": "in words and tokens"}
_MOST_PAIRS = 10
_MOST_OF_A_COMMIT = 60
_MOST_LEFT = 1000
Counts = dict[str, int]
Facts = Mapping[str, Any]
Texts = tuple[str, ...]


def drawn(facts: Facts) -> Shown:
    """The parts of the page that come from facts; empty or None if the page leaves one out.

    `same` says in what two answers are the same, `is_exact` that this is all of them.
    """
    # Each part by itself: one of an unknown form must not take the page away.
    test = part(facts, "test", PermutationTest)
    picture = part(facts, "matrix", AnswerMatrix)
    view = None if picture is None else matrix.view(picture, test.disputed if test else ())
    identity = part(facts, "identity", IdentityFacts)
    divergence = part(facts, "divergence", DivergencePositions)
    aligned = part(facts, "aligned", tuple[AlignedAnswers, ...]) or ()
    same = _same(facts)
    tested = "test" in facts and view is not None
    risk = part(facts, "risk", str)
    settle = part(facts, "settle", str)
    return {
        "figures": list(_figures(facts, view, test)),
        "commits": list(_commits(facts, identity)),
        "decision": bool(tested or risk or settle),
        "test": test,
        "tested": tested,
        "risk": risk,
        "settle": settle,
        "matrix": view,
        "same": same,
        "is_exact": same == _EXACT,
        "within": sorted((part(facts, "within", Counts) or {}).items()),
        "clusters": part(facts, "clusters", tuple[Texts, ...]) or (),
        "histogram": None if divergence is None else matrix.histogram(divergence),
        "shares": list(_shares(part(facts, "differences_by", Counts) or {})),
        "pairs": [pair(each) for each in aligned[:_MOST_PAIRS]],
        "identity": identity,
        "differences": [_difference(each) for each in identity.differences] if identity else [],
        "suspects": part(facts, "suspects", Texts) or (),
        "left": _left(facts)[:_MOST_LEFT],
    }


def _left(facts: Facts) -> tuple[LeftThing, ...]:
    """What services left, each thing: of all starts, or of the one stop of a command."""
    stopped = part(facts, "stopped", StopResult)
    left = stopped.left_behind if stopped else part(facts, "left_behind", LeftBehind)
    return left.things if left else ()


def _same(facts: Facts) -> str:
    """In what answers are the same for the gate."""
    for level in part(facts, "levels", tuple[LevelFacts, ...]) or ():
        if level.gate and level.limit:
            return f"in words and tokens, and within {level.limit} in numbers"
        if level.gate:
            return _SAME.get(level.level, _EXACT)
    return _EXACT


def _figures(
    facts: Facts, view: Shown | None, test: PermutationTest | None
) -> Iterator[tuple[str, str]]:
    """The few figures that stand large above everything else."""
    if view is None:
        return
    requests = part(facts, "requests", int) or view["total"] + view["left_out"]
    yield "requests", f"{requests:,}"
    yield "differing", f"{view['differing']:,}"
    if test:
        yield "disputed", f"{len(test.disputed):,}"
    yield "baseline starts", str(view["baseline"])
    yield "candidate starts", str(len(view["columns"]) - view["baseline"])
    if test:
        yield "p", probability(test.p)


def _commits(facts: Facts, identity: IdentityFacts | None) -> Iterator[tuple[str, str]]:
    """Every fact whose name says that it is a commit; those of the report before the identity's."""
    named: dict[str, Any] = {**(identity.facts if identity else {}), **facts}
    for name in sorted(named):
        fact = named[name]
        if "commit" in name.lower() and isinstance(fact, str):
            yield name.replace("_", " "), fact[:_MOST_OF_A_COMMIT]


def _shares(reasons: Counts) -> Iterator[Shown]:
    """The reasons that were counted, each with its share of all in percent."""
    # Only what was counted: without any difference the total would be a divisor of 0.
    total = sum(count for count in reasons.values() if count > 0)
    # Known reasons in our order, then unknown ones by name.
    for name in dict.fromkeys((*MEANINGS, *sorted(reasons))):
        count = reasons.get(name, 0)
        if count > 0:
            share = round(100 * count / total, 2)
            meaning = MEANINGS.get(name, "")
            yield {"name": name, "count": count, "percent": share, "meaning": meaning}


def _difference(difference: FactDifference) -> Shown:
    """A fact by its values: the starts that agree stand together."""
    starts: dict[str, list[str]] = {}
    for start in sorted(difference.values):
        # By the text on the page: two values with the same text are one to its reader.
        starts.setdefault(value(difference.values[start]), []).append(start)
    return {"fact": difference.fact, "starts": list(starts.items())}


def render(report: Report) -> str:
    """`report` as a page of HTML, ending with a newline."""
    # Without the facts, which are most of a large report and reach the page by `drawn` alone.
    shown = cleaned(replace(report, facts={}))
    values = {
        "subject": shown.command,
        "findings": worst_first(shown),
        "links": links(shown.about),
        # From the facts as they are: their control characters are to be shown, not removed.
        "drawn": drawn(report.facts),
    }
    style = sheet("style.css.j2")
    script = sheet("script.js.j2")
    return page("page.html.j2", shown, style=style, script=script, values=values)


# --- the page of a history: tests against time, as a heat strip ---


# The kind of each character of StripRow.cells; `.` is drawn as nothing.
_KINDS = {
    "0": "pass",
    **dict.fromkeys("123", "some"),
    **dict.fromkeys("456", "half"),
    **dict.fromkeys("789", "most"),
    "i": "infra",
}
STRIP_FACT = "history_strip"


def render_history(report: Report) -> str | None:
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
