# SPDX-License-Identifier: Apache-2.0
"""What a row of the table is, and how it reads."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from results import table


class NotMeasuredError(Exception):
    """A run did not do what it is timed for; the text says what it did instead."""


class Contender(NamedTuple):
    """One who is measured: `run` gives seconds; `runs` where each one lasts too long for as many as the others."""

    name: str
    run: Callable[[], float]
    runs: int | None = None


class Figure(NamedTuple):
    """The seconds of all runs of one contender; `problem` says why there are none."""

    name: str
    seconds: tuple[float, ...] = ()
    problem: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else float("inf")


class Row(NamedTuple):
    """One row: who took how long, whether that is within `target`, and what else is to be said."""

    title: str
    target: str
    within: bool
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


def alternate(contenders: Sequence[Contender], runs: int) -> dict[str, Figure]:
    """One run of each in turn, the first of each not counted; whoever fails is out, and it is told why."""
    seconds: dict[str, list[float]] = {each.name: [] for each in contenders}
    problems: dict[str, str] = {}
    for number in range(runs + 1):
        for contender in contenders:
            wanted = min(runs, contender.runs or runs)
            if contender.name in problems or number > wanted:
                continue
            try:
                seconds[contender.name].append(contender.run())
            except NotMeasuredError as error:
                problems[contender.name] = str(error)
    return {
        name: Figure(name, problem=problems[name])
        if name in problems
        else Figure(name, tuple(values[1:]))
        for name, values in seconds.items()
    }


def named(figures: Mapping[str, Figure], missing: Mapping[str, str]) -> tuple[Figure, ...]:
    """All figures, and an empty one for each peer that is missing, with the reason."""
    return (
        *figures.values(),
        *(Figure(name, problem=f"missing: {why}") for name, why in missing.items()),
    )


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f}" if seconds < 0.01 else f"{seconds * 1000:.0f}"


def as_text(row: Row) -> str:
    """For a terminal."""
    lines = [f"{'PASS' if row.within else 'MISS'}  {row.title}  (target: {row.target})"]
    lines += [
        f"      {cells[0]:<44}{'  '.join(f'{cell:>9}' for cell in cells[1:])}"
        for cells in _cells(row)
    ]
    return "\n".join([*lines, *(f"      {note}" for note in _remarks(row))])


def as_markdown(row: Row) -> str:
    """For RESULTS.md."""
    lines = [
        f"### {row.title}",
        "",
        f"Target: {row.target}. **{'PASS' if row.within else 'MISS'}**",
    ]
    if row.figures:
        head, *body = _cells(row)
        lines += ["", *table(" | ".join(head), body)]
    return "\n".join([*lines, "", *(f"- {note}" for note in _remarks(row))]).rstrip() + "\n"


def _remarks(row: Row) -> tuple[str, ...]:
    """The notes, and why a figure has no times."""
    return (
        *row.notes,
        *(f"{figure.name}: {figure.problem}" for figure in row.figures if figure.problem),
    )


def _cells(row: Row) -> list[tuple[str, ...]]:
    """A head and a line for each figure; times of the first one, which is ours."""
    if not row.figures:
        return []
    ours = row.figures[0].median
    cells: list[tuple[str, ...]] = [("", "median ms", "min", "max", "runs", "to ours")]
    for figure in row.figures:
        if not figure.seconds:
            cells.append((figure.name, "-", "-", "-", "0", "-"))
            continue
        times = (
            milliseconds(each) for each in (figure.median, min(figure.seconds), max(figure.seconds))
        )
        cells.append((figure.name, *times, str(len(figure.seconds)), f"{figure.median / ours:.2f}"))
    return cells
