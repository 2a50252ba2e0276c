# SPDX-License-Identifier: Apache-2.0
"""What is wanted of the verdicts in a world, and whether they do it."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from simulation.designs import COLLECTED, DEFAULT, OURS, Colour
from simulation.harness import THREE, Cell, Measured, wilson
from simulation.scenario import Kind

MOST_RED, MOST_RED_LIMIT = 0.025, 0.04
FEWEST_SOON = 0.95
MOST_UNTRUE = 0.05
MOST_PERMANENT = 0.01
# Where a mode is rarer, three baseline starts or six builds show it well enough.
RARE = 0.1
MOST_OF_LIMIT = 1.25


class Target(StrEnum):
    """What a scenario is held against."""

    RED = "false red <= 2.5 %, upper limit <= 4 %"
    MISSED = "a fault is passed in 0 %"
    PERMANENT = "a mode of rate r made permanent is passed in <= r + 1 %"
    PERMANENT_RARE = "the same for r <= .1 with three baseline starts or an archive: <= 1 %"
    SOON = "a persistent fault is red within 16 starts in >= 95 %"
    LIMIT = "starts to red <= 1.25x those of the limit that knows the truth"
    UNTRUE = "a printed bound is untrue in <= 5 %"
    STARTS = "starts on average"
    BEATS = "missed less often than by any of 3"


class Held(NamedTuple):
    """One target, held against one scenario; `figures` tell those of every design that it is held against."""

    scenario: str
    target: Target
    within: bool
    figures: str


def held(measured: Measured) -> Iterator[Held]:
    """The targets of a row."""
    for target, check in _CHECKS[measured.scenario.kind].items():
        yield check(measured, target)
    yield _untrue(measured, Target.UNTRUE)
    if measured.scenario.most_starts is not None:
        yield _starts(measured, Target.STARTS)


def _ours(measured: Measured) -> list[Cell]:
    return [measured.cells[design.name] for design in OURS]


def _ours_and_collected(measured: Measured) -> list[Cell]:
    return [measured.cells[design.name] for design in (*OURS, *COLLECTED)]


def interval(events: int, runs: int) -> str:
    """`1.20 [0.80, 1.79] %`."""
    low, high = wilson(events, runs)
    return f"{100 * events / runs:.2f} [{100 * low:.2f}, {100 * high:.2f}] %"


def _shares(
    measured: Measured,
    target: Target,
    cells: Sequence[Cell],
    events: Callable[[Cell], int],
    within: Callable[[Cell], bool],
) -> Held:
    texts = (f"{cell.design} {interval(events(cell), cell.runs)}" for cell in cells)
    return Held(measured.scenario.name, target, all(map(within, cells)), ", ".join(texts))


def _red(measured: Measured, target: Target) -> Held:
    def within(cell: Cell) -> bool:
        red = cell.number(Colour.RED)
        return red <= MOST_RED * cell.runs and wilson(red, cell.runs)[1] <= MOST_RED_LIMIT

    return _shares(measured, target, _ours_and_collected(measured), _number_red, within)


def _missed(measured: Measured, target: Target) -> Held:
    cells = _ours_and_collected(measured)
    return _shares(measured, target, cells, _number_green, lambda cell: not _number_green(cell))


def _permanent(measured: Measured, target: Target) -> Held:
    most = measured.scenario.rate + MOST_PERMANENT
    default = measured.cells[DEFAULT.name]
    return _shares(measured, target, [default], _number_green, lambda cell: _at_most(cell, most))


def _permanent_rare(measured: Measured, target: Target) -> Held:
    cells = [cell for cell in _ours(measured) if cell.design != DEFAULT.name]
    is_rare = measured.scenario.rate <= RARE

    def within(cell: Cell) -> bool:
        return not is_rare or _at_most(cell, MOST_PERMANENT)

    return _shares(measured, target, cells, _number_green, within)


def _at_most(cell: Cell, share: float) -> bool:
    """Whether no more than this share was green, but for chance: a first pair agrees with exactly the mode's rate."""
    return wilson(_number_green(cell), cell.runs)[0] <= share


def _soon(measured: Measured, target: Target) -> Held:
    def within(cell: Cell) -> bool:
        return cell.soon >= FEWEST_SOON * cell.runs

    return _shares(measured, target, _ours(measured), lambda cell: cell.soon, within)


def _untrue(measured: Measured, target: Target) -> Held:
    def within(cell: Cell) -> bool:
        return cell.untrue <= MOST_UNTRUE * cell.runs

    return _shares(measured, target, _ours(measured), lambda cell: cell.untrue, within)


def _limit(measured: Measured, target: Target) -> Held:
    truth = measured.limit.starts
    cells = _ours(measured)
    told = [cell.to_red for cell in cells if cell.to_red is not None]
    within = truth is not None and bool(told) and max(told) <= MOST_OF_LIMIT * truth
    texts = (f"{cell.design} {_mean(cell.to_red)}" for cell in cells)
    figures = f"{', '.join(texts)}; the limit {_mean(truth)}"
    return Held(measured.scenario.name, target, within, figures)


def _mean(starts: float | None) -> str:
    return "never" if starts is None else f"{starts:.1f}"


def _starts(measured: Measured, target: Target) -> Held:
    starts, most = measured.cells[DEFAULT.name].starts, measured.scenario.most_starts
    within = most is not None and starts <= most
    return Held(measured.scenario.name, target, within, f"{starts:.2f}, at most {most:g}")


def _beats(measured: Measured, target: Target) -> Held:
    default, rival = measured.cells[DEFAULT.name], measured.cells[THREE]
    within = _number_green(default) < _number_green(rival)
    return _shares(measured, target, [default, rival], _number_green, lambda _: within)


def _number_red(cell: Cell) -> int:
    return cell.number(Colour.RED)


def _number_green(cell: Cell) -> int:
    return cell.number(Colour.GREEN)


_Check = Callable[[Measured, Target], Held]
_CHECKS: dict[Kind, dict[Target, _Check]] = {
    Kind.HEALTHY: {Target.RED: _red},
    Kind.PERSISTENT: {Target.MISSED: _missed, Target.SOON: _soon, Target.LIMIT: _limit},
    Kind.PERMANENT: {Target.PERMANENT: _permanent, Target.PERMANENT_RARE: _permanent_rare},
    Kind.MISSED: {Target.MISSED: _missed},
    Kind.INTERMITTENT: {Target.BEATS: _beats},
    Kind.SHOWN: {},
}
