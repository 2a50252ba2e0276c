# SPDX-License-Identifier: Apache-2.0
"""The rows as text and as Markdown."""

from collections.abc import Iterator, Sequence

from simulation.designs import OURS, Colour
from simulation.harness import COLUMNS, Cell, Measured

HEAD = ("scenario", *COLUMNS, "the limit that knows", "bound untrue, worst")
_HEALTHY = (Colour.RED, Colour.AMBER, Colour.GREEN)
_WORSE = (Colour.GREEN, Colour.RED, Colour.AMBER)


def cells(measured: Measured) -> tuple[str, ...]:
    """`red / amber / green @ mean starts` where nothing is worse, or else `green (missed) / red / amber`; in percent."""
    order = _WORSE if measured.scenario.regression else _HEALTHY
    texts = [_colours(cell, order) for cell in measured.cells.values()]
    title = f"{measured.scenario.name} {measured.scenario.title}"
    return (title, *texts, _limit(measured), _short(_worst_untrue(measured)))


def _colours(cell: Cell, order: Sequence[Colour]) -> str:
    shown = " / ".join(_short(cell.percent(colour)) for colour in order)
    return f"{shown} @{cell.starts:.1f}"


def _limit(measured: Measured) -> str:
    truth = measured.limit
    if not measured.scenario.regression or truth.starts is None:
        return ""
    return f"{_short(100 * truth.told / truth.runs)} @{truth.starts:.1f}"


def _worst_untrue(measured: Measured) -> float:
    ours = (measured.cells[design.name] for design in OURS)
    return max(100 * cell.untrue / cell.runs for cell in ours)


def _short(percent: float) -> str:
    if percent in {0, 100}:
        return f"{percent:.0f}"
    return f"{percent:.1f}"


def as_text(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns under each other."""
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(len(HEAD))]
    lines = (
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in (HEAD, *rows)
    )
    return "\n".join(line.rstrip() for line in lines)


def verdicts(measured: Measured) -> Iterator[str]:
    """Which verdicts stand behind the colours, for each design of ours."""
    for design in OURS:
        counts = measured.cells[design.name]
        parts = (
            f"{verdict} {100 * number / counts.runs:.1f}"
            for verdict, number in sorted(counts.verdicts.items())
        )
        to_red = "" if counts.to_red is None else f", red after {counts.to_red:.1f} starts"
        bounds = f", {counts.bounded} bounds, {counts.untrue} untrue" if counts.bounded else ""
        yield f"{measured.scenario.name} {design.name}: {', '.join(parts)}{to_red}{bounds}"
