# SPDX-License-Identifier: Apache-2.0
"""Pure. The tables of the benchmark of `diagnose`, as lines of Markdown."""

import itertools
from collections.abc import Sequence

from categories import is_right_class
from readings import Row

_SOURCES = ("logchunks", "mlserve", "cidiff", "logdx", "pytorch", "treeherder")
_BOUNDS = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def accuracy_table(rows: Sequence[Row]) -> list[str]:
    """Top-1 and ex40 by source, and the share of right classes."""
    lines = ["| source | logs | top-1 | ex40 |", "|---|--:|--:|--:|"]
    for source in _SOURCES:
        chosen = [row for row in rows if row.source == source]
        if chosen:
            lines.append(
                f"| {source} | {len(chosen)} | {named(chosen):.1%} | {shown(chosen):.1%} |"
            )
    classes = [is_right_class(row.category, row.reading.class_) for row in rows]
    known = [each for each in classes if each is not None]
    if known:
        lines.append(f"| classes of mlserve | {len(known)} | {sum(known) / len(known):.1%} | |")
    return lines


def named(rows: Sequence[Row]) -> float:
    """The share of logs whose label is named."""
    return sum(row.is_named for row in rows) / len(rows)


def shown(rows: Sequence[Row]) -> float:
    """The share of logs of whose label 40 lines around the named one show a part."""
    return sum(row.is_shown for row in rows) / len(rows)


def calibration_table(rows: Sequence[Row], sure: Sequence[float]) -> list[str]:
    """How many answers of each confidence are right; a passing log's answer never is."""
    lines = ["| said | answers | right |", "|---|--:|--:|"]
    for low, high in itertools.pairwise(_BOUNDS):
        chosen = [row for row, each in zip(rows, sure, strict=True) if low <= each < high]
        if chosen:
            lines.append(f"| {low:.0%} to {high:.0%} | {len(chosen)} | {named(chosen):.0%} |")
    return lines
