# SPDX-License-Identifier: Apache-2.0
"""Runs every scenario under every design, in as many processes as there are processors; the seed makes it repeatable."""

import math
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from ci_doctor.model.outcome import Verdict
from simulation.designs import (
    COLLECTED,
    DEFAULT,
    OURS,
    SEEDS,
    Colour,
    Design,
    Known,
    Outcome,
    any_of,
    pairs_needed,
)
from simulation.limit import Limit, limit
from simulation.scenario import Scenario
from simulation.scenarios import SCENARIOS
from simulation.servers import Servers

# Products of small matrices: threads only wait for each other. numpy reads it when it is loaded, late.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

SEED = 20_260_000
# Designs beside the default have this part of its runs: the whole is to end within an hour.
PART = 4
ONCE, THREE = "once", "any of 3"
COLUMNS = (ONCE, THREE, *(design.name for design in (*OURS, *COLLECTED)))
# A fault that is told is told within so many starts.
SOON = 16


class Cell(NamedTuple):
    """What `runs` runs of one design came to.

    `starts` is the mean number of server starts, `to_red` that of the red runs; `soon` runs were red within 16 starts;
    `untrue` printed a bound that is not.
    """

    design: str
    runs: int
    colours: Mapping[Colour, int]
    verdicts: Mapping[Verdict, int]
    starts: float
    to_red: float | None
    soon: int
    bounded: int
    untrue: int

    def number(self, colour: Colour) -> int:
        return self.colours.get(colour, 0)

    def percent(self, colour: Colour) -> float:
        return 100 * self.number(colour) / self.runs


def wilson(events: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    share = events / trials
    middle = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


class Measured(NamedTuple):
    """A row: the cells of all columns by name, and the limit that knows the truth."""

    scenario: Scenario
    cells: Mapping[str, Cell]
    limit: Limit


def cell(name: str, outcomes: Iterable[Outcome]) -> Cell:
    """All outcomes of one design."""
    done = list(outcomes)
    red = [each.starts for each in done if each.colour is Colour.RED]
    green = [each for each in done if each.colour is Colour.GREEN]
    return Cell(
        design=name,
        runs=len(done),
        colours=Counter(each.colour for each in done),
        verdicts=Counter(each.verdict for each in done),
        starts=sum(each.starts for each in done) / len(done),
        to_red=sum(red) / len(red) if red else None,
        soon=sum(starts <= SOON for starts in red),
        bounded=sum(each.bound is not None for each in green),
        untrue=sum(each.untrue for each in green),
    )


def decided(scenario: Scenario, design: Design, runs: int) -> Cell:
    rng = Random(f"{SEED} {scenario.name} {design.name}")
    known = Known(design.judge)
    outcomes = (design.run(Servers(scenario, rng), known, run % SEEDS) for run in range(runs))
    return cell(design.name, outcomes)


def row(scenario: Scenario, runs: int) -> Measured:
    rng = Random(f"{SEED} {scenario.name} pairs")
    needed = [pairs_needed(Servers(scenario, rng)) for _ in range(runs)]
    pairs = {ONCE: 1, THREE: 3}
    cells = {name: cell(name, [any_of(n, each) for each in needed]) for name, n in pairs.items()}
    for design in (*OURS, *COLLECTED):
        own = runs if design is DEFAULT else max(1, runs // PART)
        cells[design.name] = decided(scenario, design, own)
    truth = limit(scenario, Random(f"{SEED} {scenario.name} limit"), min(runs, 500))
    return Measured(scenario, cells, truth)


def _row(task: tuple[str, int]) -> Measured:
    name, runs = task
    return row(next(scenario for scenario in SCENARIOS if scenario.name == name), runs)


def measure(
    scenarios: Sequence[Scenario], runs: int, jobs: int | None = None
) -> Iterator[Measured]:
    """The rows in their order, as they are ready; by so many processes at most."""
    with multiprocessing.Pool(min(jobs or os.cpu_count() or 1, len(scenarios))) as pool:
        yield from pool.imap(_row, [(scenario.name, runs) for scenario in scenarios])
