# SPDX-License-Identifier: Apache-2.0
"""Pure. Starts against requests as a matrix, and first differences as bars."""

import itertools
import math
import statistics
from collections.abc import Collection, Iterable, Sequence

from ci_doctor.model.facts.correctness import (
    AnswerMatrix,
    DivergencePositions,
    RequestRow,
    StartColumn,
)
from ci_doctor.render.formatting import UNKNOWN, amount, number
from ci_doctor.render.html.templating import Shown

# Classes from 1 on share seven colours in turn; the number in the cell distinguishes them.
COLOURS = 8
MOST_CELLS = 30_000  # about 700 kB of a page
_EQUAL = "equal"
# The order in which kinds are read, the worst first.
_KINDS = {
    "disputed": ("Disputed", "the mix of answers differs most between the arms"),
    "changed": ("Changed", "the baseline is always the same, the candidate never the same as it"),
    "own": (
        "Own",
        "the baseline differs from itself, and the candidate gives an answer of its own",
    ),
    "sometimes": (
        "Sometimes",
        "the baseline is always the same, the candidate only sometimes the same as it",
    ),
    "flaky": (
        "Flaky",
        "the baseline differs from itself, and the candidate adds nothing of its own",
    ),
    "unanswered": ("Unanswered", "there is nothing to compare"),
    _EQUAL: ("Equal", "the same in every start that counts"),
}
_RANKS = {kind: rank for rank, kind in enumerate(_KINDS)}


def view(matrix: AnswerMatrix, disputed: Collection[str] = ()) -> Shown | None:
    """`matrix` as it is drawn; None if there is nothing to draw.

    Baseline starts stand before candidate starts, archived ones first; disputed and flaky requests before equal
    ones. Requests of one kind are sorted by their answers, so that those that vary together stand
    together. What exceeds 30,000 cells is counted in `left_out`. `equal` holds the ids of requests that every
    start answered alike.
    """
    starts = matrix.starts
    order = sorted(
        range(len(starts)), key=lambda at: (starts[at].arm == "candidate", not starts[at].archived)
    )
    if not order or not matrix.requests:
        return None
    equal = [row.id for row in matrix.requests if _is_equal_everywhere(row, len(order))]
    differing = [
        _drawn(row, order, "disputed" if row.id in disputed else row.kind)
        for row in matrix.requests
        if not _is_equal_everywhere(row, len(order))
    ]
    differing.sort(key=lambda row: (_RANKS.get(row["kind"], 0), row["kind"], row["pattern"]))
    # A row is shown with all of its cells or not at all.
    drawn = differing[: MOST_CELLS // len(order)]
    columns = [starts[at] for at in order]
    groups = _groups(drawn)
    total = len(drawn) + len(equal)
    kinds = [f"{len(group['rows'])} {group['title'].lower()}" for group in groups]
    if equal:
        kinds.append(f"{len(equal)} the same in every start")
    said = ", ".join(kinds)
    return {
        "columns": columns,
        # Whatever is no candidate is compared as the baseline.
        "baseline": sum(start.arm != "candidate" for start in columns),
        "groups": groups,
        "equal": equal,
        "strips": [_strip(at, start, drawn, len(equal)) for at, start in enumerate(columns)],
        "differing": len(differing),
        "drawn": len(drawn),
        "left_out": len(differing) - len(drawn),
        "colours": _legend(matrix.requests),
        "kinds": said,
        "total": total,
        # The picture in a sentence, for those who do not see it.
        "label": f"{amount(len(columns), 'start')} against {amount(total, 'request')}: {said}",
    }


def _drawn(row: RequestRow, order: Sequence[int], kind: str) -> Shown:
    """A request in a row of its own; a start that has no entry gave no answer."""
    answers = [row.classes[at] if at < len(row.classes) else None for at in order]
    # Sorted before every answer, as None cannot be compared with a number. A kind unknown to this
    # version may be the one that matters: it is read first.
    pattern = [-1 if answer is None else answer for answer in answers]
    return {"id": row.id, "kind": kind, "pattern": pattern, "cells": [*map(_cell, answers)]}


def _is_equal_everywhere(row: RequestRow, starts: int) -> bool:
    # The kind alone says it for the starts that count only; another may lack an answer.
    return row.kind == _EQUAL and len(row.classes) == starts and set(row.classes) == {0}


def _groups(requests: Iterable[Shown]) -> list[Shown]:
    """The requests by kind, in the order in which they come."""
    groups = []
    for kind, rows in itertools.groupby(requests, key=lambda row: row["kind"]):
        # A later version may know more kinds than this one.
        title, note = _KINDS.get(kind, (kind.capitalize(), ""))
        groups.append({"title": title, "note": note, "rows": list(rows)})
    return groups


def _cell(answer: int | None) -> Shown:
    """The cell of an answer: people count from 1, and a dash stands for none."""
    if answer is None or answer < 0:
        return {"style": "none", "text": UNKNOWN}
    # Never 0 again: that is the colour of the answer given first.
    colour = answer if answer < COLOURS else (answer - 1) % (COLOURS - 1) + 1
    return {"style": f"c{colour}", "text": str(answer + 1)}


def _legend(requests: Iterable[RequestRow]) -> list[Shown]:
    """A cell of each colour that is used, and the one for no answer."""
    answers = {answer for row in requests for answer in row.classes}
    numbers = sorted(answer for answer in answers if answer is not None and answer >= 0)
    # The answers after these repeat the colours.
    return [*map(_cell, numbers[:COLOURS]), *([_cell(None)] if None in answers else [])]


def _strip(column: int, start: StartColumn, requests: Sequence[Shown], equal: int) -> Shown:
    """One start over all requests, as SVG paths `(style, d)`, one unit wide for each request and ten high.

    Neighbours of one colour become one rectangle: a page of a thousand requests stays small.
    """
    styles = [request["cells"][column]["style"] for request in requests]
    paths: dict[str, str] = {}
    begin = 0
    # The equal requests are not drawn as rows, but they have their place in the strip.
    for style, run in itertools.groupby([*styles, *["c0"] * equal]):
        width = len(list(run))
        paths[style] = f"{paths.get(style, '')}M{begin} 0h{width}v10h{-width}z"
        begin += width
    # Sorted, so that the same report gives the same bytes.
    return {"name": start.name, "paths": sorted(paths.items())}


_MOST_BINS = 30  # narrower bars cannot be pointed at on a page of usual width
_MOST_LABELS = 6


def histogram(divergence: DivergencePositions) -> Shown | None:
    """`divergence` as bars in percent of the picture; None if no position is known.

    Least, median and most are taken from the positions, so that the mark of the median cannot
    stand beside its own bars.
    """
    known = (each for each in divergence.positions if each is not None)
    positions = sorted(each for each in known if 0 <= each < math.inf)
    if not positions:
        return None
    first, width = _bins(positions)
    bins = int((positions[-1] - first) // width) + 1
    # Never beyond the last: of huge positions the subtraction is rounded.
    places = [min(bins - 1, int((position - first) // width)) for position in positions]
    counts = {place: places.count(place) for place in sorted(set(places))}
    tallest = max(counts.values())
    bars = [
        {
            "first": first + place * width,
            "last": first + (place + 1) * width - 1,
            "count": count,
            "x": _percent(place, bins),
            "width": _percent(1, bins),
            "height": _percent(count, tallest),
        }
        for place, count in counts.items()
    ]
    # Below the beginning of its bin; below the middle if a bin is one unit wide.
    shift = 0.5 if width == 1 else 0.0
    across = [
        {"at": _percent(place + shift, bins), "text": str(first + place * width)}
        for place in range(0, bins, math.ceil(bins / _MOST_LABELS))
    ]
    marks = [0, tallest // 2, tallest] if tallest >= 4 and tallest % 2 == 0 else [0, tallest]
    # As the report in text has it: a position that some answer has, and not the middle of two.
    middle = statistics.median_low(positions)
    return {
        "unit": divergence.unit,
        "count": len(positions),
        "bars": bars,
        "across": across,
        # From the top, as CSS measures.
        "up": [{"at": 100 - _percent(count, tallest), "text": str(count)} for count in marks],
        "least": number(positions[0]),
        "median": number(middle),
        "most": number(positions[-1]),
        # The bar of a single unit spans [n, n + 1): the mark stands at its middle, and never beyond the picture.
        "median_at": min(100.0, _percent(middle - first + 0.5, bins * width)),
    }


def _bins(positions: Sequence[float]) -> tuple[int, int]:
    """The first bin's beginning, and the width of all: the smallest of 1, 2, 5, 10, … with 30 bins at most."""
    for magnitude in itertools.count():
        for step in (1, 2, 5):
            width = step * 10**magnitude
            first = int(positions[0] // width) * width
            if (positions[-1] - first) // width < _MOST_BINS:
                return first, width
    raise AssertionError  # the widths have no end


def _percent(part: float, whole: float) -> float:
    # Rounded: the page must not differ by the last bit of a division.
    return round(100 * part / whole, 3)
