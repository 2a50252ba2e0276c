# SPDX-License-Identifier: Apache-2.0
"""Where answers diverge, as bars: bins of a round width, positions in percent of the picture. Pure."""

import math
from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.model.facts.answers import DivergencePositions

_MOST_BINS = 30
_STEPS = (1, 2, 5, 10)


class Bar(Struct, frozen=True):
    """One bin: `[first, last]` in whole units, and its rectangle in percent of the picture's width and height."""

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
    """`divergence` as bars; None where no position is known.

    Least, median and most are taken from the positions, so that the mark cannot stand beside its
    own bars.
    """
    positions = sorted(
        position
        for position in divergence.positions
        if position is not None and 0 <= position < math.inf
    )
    if not positions:
        return None
    first, width = _bins(positions)
    counts = _counts(positions, first, width)
    tallest, bins = max(counts), len(counts)
    middle = _median(positions)
    return Histogram(
        unit=divergence.unit,
        count=len(positions),
        bars=tuple(
            Bar(
                first + number * width,
                first + (number + 1) * width - 1,
                count,
                x=_percent(number, bins),
                width=_percent(1, bins),
                height=_percent(count, tallest),
            )
            for number, count in enumerate(counts)
            if count
        ),
        across=_across(first, width, bins),
        up=tuple(
            Tick(100 - _percent(count, tallest), str(count))
            for count in sorted({0, *_marks(tallest)})
        ),
        least=number_text(positions[0]),
        median=number_text(middle),
        most=number_text(positions[-1]),
        median_at=min(100.0, _percent(middle - first + 0.5, bins * width)),
    )


def number_text(value: float) -> str:
    """`37`, `37.5`, `1.2e+09`: a figure as it is read."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"


def _bins(positions: Sequence[float]) -> tuple[int, int]:
    """The first bin's beginning and the width of all: the smallest of 1, 2, 5, 10, 20, … that needs 30 bins at most."""
    least, most = positions[0], positions[-1]
    magnitude = 1
    while True:
        for step in _STEPS:
            width = step * magnitude
            first = int(least // width) * width
            if (most - first) // width + 1 <= _MOST_BINS:
                return first, width
        magnitude *= 10


def _counts(positions: Sequence[float], first: int, width: int) -> list[int]:
    counts = [0] * (int((positions[-1] - first) // width) + 1)
    for position in positions:
        counts[min(len(counts) - 1, int((position - first) // width))] += 1
    return counts


def _median(positions: Sequence[float]) -> float:
    half = len(positions) // 2
    return positions[half] if len(positions) % 2 else (positions[half - 1] + positions[half]) / 2


def _across(first: int, width: int, bins: int) -> tuple[Tick, ...]:
    """At most six numbers, each below the beginning of its bin (or its middle, where a bin is one unit)."""
    every = math.ceil(bins / 6)
    shift = 0.5 if width == 1 else 0.0
    return tuple(
        Tick(_percent(number + shift, bins), str(first + number * width))
        for number in range(0, bins, every)
    )


def _marks(tallest: int) -> tuple[int, ...]:
    return (tallest,) if tallest < 4 or tallest % 2 else (tallest // 2, tallest)


def _percent(part: float, whole: float) -> float:
    return round(100 * part / whole, 3)
