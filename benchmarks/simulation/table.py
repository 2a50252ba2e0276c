# SPDX-License-Identifier: Apache-2.0
"""The rows as text and as Markdown, and which targets they meet."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulation.designs import DEFAULT, OURS, Colour
from simulation.harness import COLUMNS, THREE, Cell, Measured
from simulation.scenarios import Target

MOST_RED = 2.0
HEAD = ("scenario", *COLUMNS, "any of N, equal starts")


class Held(NamedTuple):
    """One target, held against one scenario; `cells` tell the figures of every design of ours."""

    scenario: str
    target: Target
    within: bool
    cells: str


def cells(measured: Measured) -> tuple[str, ...]:
    """`red / amber / green @ mean starts` where nothing is worse, or else `green (missed) / red / amber`; in percent."""
    order = (
        (Colour.GREEN, Colour.RED, Colour.AMBER)
        if measured.scenario.regression
        else (Colour.RED, Colour.AMBER, Colour.GREEN)
    )
    shown = [*measured.cells.values(), measured.equal]
    texts = [
        f"{' / '.join(_short(each.percent(colour)) for colour in order)} @{each.starts:.1f}"
        for each in shown
    ]
    texts[-1] = f"{texts[-1]} (N={measured.equal.design.removeprefix('any of ')})"
    return (f"{measured.scenario.name} {measured.scenario.title}", *texts)


def _short(percent: float) -> str:
    return "100" if percent == 100 else "0" if percent == 0 else f"{percent:.1f}"


def held(measured: Measured) -> Held | None:
    """The target of a row; None where it has none."""
    scenario, ours = measured.scenario, [measured.cells[design.name] for design in OURS]
    match scenario.target:
        case Target.RED:
            return _held(
                measured,
                ours,
                Colour.RED,
                all(each.percent(Colour.RED) <= MOST_RED for each in ours),
            )
        case Target.MISSED:
            return _held(
                measured,
                ours,
                Colour.GREEN,
                not any(each.colours.get(Colour.GREEN) for each in ours),
            )
        case Target.BEATS:
            others = (measured.cells[THREE], measured.equal)
            rival = min(others, key=lambda each: each.percent(Colour.GREEN))
            default = measured.cells[DEFAULT.name]
            within = default.percent(Colour.GREEN) < rival.percent(Colour.GREEN)
            return _held(measured, [default, rival], Colour.GREEN, within)
        case Target.SHOWN:
            return None


def _held(measured: Measured, shown: Sequence[Cell], colour: Colour, within: bool) -> Held:
    texts = (
        f"{each.design} {each.percent(colour):.2f} ± {each.error(colour):.2f} %" for each in shown
    )
    return Held(measured.scenario.name, measured.scenario.target, within, ", ".join(texts))


def as_text(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns under each other."""
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(len(HEAD))]
    lines = (
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in (HEAD, *rows)
    )
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [_line(HEAD), "|---" + "|--:" * (len(HEAD) - 1) + "|", *map(_line, rows)]
    return "\n".join(lines)


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def verdicts(measured: Measured) -> Iterator[str]:
    """Which verdicts stand behind the colours, for each design of ours that has more than one kind of amber."""
    for design in OURS:
        counts = measured.cells[design.name]
        parts = (
            f"{verdict} {100 * number / counts.runs:.1f}"
            for verdict, number in sorted(counts.verdicts.items())
        )
        yield f"{measured.scenario.name} {design.name}: {', '.join(parts)}"
