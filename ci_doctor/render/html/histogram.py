# SPDX-License-Identifier: Apache-2.0
"""Pure. First differences as bars: bins of a round width, positions in percent of the picture."""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from msgspec import Struct

from ci_doctor.model.facts.answers import DivergencePositions
from ci_doctor.render.formatting import number

_MOST_BINS = 30  # narrower bars cannot be pointed at on a page of usual width
_STEPS = (1, 2, 5, 10)


class Bar(Struct, frozen=True):
    """One bin: `[first, last]` in whole units, and its rectangle in percent of the picture."""

    first: int
    last: int
    count: int
    x: float
    width: float
    height: float


class Tick(Struct, frozen=True):
    """A number beside an axis, at a place in percent."""

    at: float
    text: str


class Histogram(Struct, frozen=True):
    """What the page draws of a divergence. `median_at` is in percent of the width."""

    unit: str
    count: int
    bars: tuple[Bar, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    least: str
    median: str
    most: str
    median_at: float


def histogram(divergence: DivergencePositions) -> Histogram | None:
    """`divergence` as bars; None if no position is known.

    Least, median and most are taken from the positions, so that the mark of the median cannot
    stand beside its own bars.
    """
    positions = sorted(filter(_is_position, divergence.positions))
    if not positions:
        return None
    first, width = _bins(positions)
    counts = _counts(positions, first, width)
    bins = len(counts)
    # As the report in text has it: a position that some answer has, and not the middle of two.
    middle = statistics.median_low(positions)
    # The bar of a single unit spans [n, n + 1): the mark stands at its middle.
    median_at = _percent(middle - first + 0.5, bins * width)
    return Histogram(
        unit=divergence.unit,
        count=len(positions),
        bars=tuple(_bars(counts, first, width)),
        across=_across(first, width, bins),
        up=_up(max(counts)),
        least=number(positions[0]),
        median=number(middle),
        most=number(positions[-1]),
        # Never beyond the picture: of huge positions the subtraction is rounded.
        median_at=min(100.0, median_at),
    )


def _is_position(position: float | None) -> TypeGuard[float]:
    # NaN fails the comparison, too.
    return position is not None and 0 <= position < math.inf


def _bins(positions: Sequence[float]) -> tuple[int, int]:
    """The first bin's beginning, and the width of all.

    The width is the smallest of 1, 2, 5, 10, 20, … with 30 bins at most.
    """
    least = positions[0]
    most = positions[-1]
    magnitude = 1
    while True:
        for step in _STEPS:
            width = step * magnitude
            first = int(least // width) * width
            bins = (most - first) // width + 1
            if bins <= _MOST_BINS:
                return first, width
        magnitude *= 10


def _counts(positions: Sequence[float], first: int, width: int) -> list[int]:
    last = int((positions[-1] - first) // width)
    counts = [0] * (last + 1)
    for position in positions:
        index = int((position - first) // width)
        # Never beyond the last: of huge positions the subtraction is rounded.
        counts[min(last, index)] += 1
    return counts


def _bars(counts: Sequence[int], first: int, width: int) -> Iterator[Bar]:
    tallest = max(counts)
    bins = len(counts)
    for index, count in enumerate(counts):
        if not count:
            continue
        begin = first + index * width
        end = begin + width - 1
        yield Bar(
            begin,
            end,
            count,
            x=_percent(index, bins),
            width=_percent(1, bins),
            height=_percent(count, tallest),
        )


def _across(first: int, width: int, bins: int) -> tuple[Tick, ...]:
    """At most six numbers, each below the beginning of its bin.

    If a bin is one unit wide, below its middle.
    """
    every = math.ceil(bins / 6)
    shift = 0.0
    if width == 1:
        shift = 0.5
    ticks = []
    for index in range(0, bins, every):
        begin = first + index * width
        at = _percent(index + shift, bins)
        ticks.append(Tick(at, str(begin)))
    return tuple(ticks)


def _up(tallest: int) -> tuple[Tick, ...]:
    """Numbers at the bottom and the top, and at half height if that is a whole number."""
    marks = [0, tallest]
    if tallest >= 4 and tallest % 2 == 0:
        marks.insert(1, tallest // 2)
    ticks = []
    for count in marks:
        # From the top, as CSS measures.
        at = 100 - _percent(count, tallest)
        ticks.append(Tick(at, str(count)))
    return tuple(ticks)


def _percent(part: float, whole: float) -> float:
    # Rounded: the page must not differ by the last bit of a division.
    return round(100 * part / whole, 3)
