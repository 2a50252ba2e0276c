# SPDX-License-Identifier: Apache-2.0
"""Runs every scenario under every design, in as many processes as there are processors; the seed makes it repeatable."""

import math
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from ci_doctor.correctness.settings import Arm
from ci_doctor.model.verdict import Verdict
from simulation.designs import (
    DEFAULT,
    MOST_PAIRS,
    OURS,
    Ask,
    Colour,
    Known,
    Ours,
    Outcome,
    any_of,
    pairs_needed,
)
from simulation.scenarios import SCENARIOS, Scenario
from simulation.worlds import Answers, Draw, answer

SEED = 20_260_000
ONCE, THREE = "once", "any of 3"
COLUMNS = (ONCE, THREE, *(design.name for design in OURS))


class Cell(NamedTuple):
    """What `runs` runs of one design came to; `starts` is the mean number of server starts."""

    design: str
    runs: int
    colours: Mapping[Colour, int]
    verdicts: Mapping[Verdict, int]
    starts: float

    def percent(self, colour: Colour) -> float:
        return 100 * self.colours.get(colour, 0) / self.runs

    def error(self, colour: Colour) -> float:
        """Half the width of the 95 % interval (Wilson 1927), in percent."""
        share, z = self.colours.get(colour, 0) / self.runs, 1.96
        spread = math.sqrt(share * (1 - share) / self.runs + z * z / (4 * self.runs * self.runs))
        return 100 * z * spread / (1 + z * z / self.runs)


class Measured(NamedTuple):
    """A row: the cells of all columns by name, and of `any of N` for the N whose mean starts are nearest to ours."""

    scenario: Scenario
    cells: Mapping[str, Cell]
    equal: Cell


def asker(scenario: Scenario, rng: Random) -> Ask:
    """Servers of one run, each start a new one; what the run remembers begins anew."""
    memory: dict[int, int] = {}
    index = -1

    def ask(arm: Arm) -> Answers:
        nonlocal index
        index += 1
        return answer(scenario.parts, Draw(rng, arm, index, memory))

    return ask


def cell(name: str, outcomes: Iterable[Outcome]) -> Cell:
    """All outcomes of one design."""
    colours: Counter[Colour] = Counter()
    verdicts: Counter[Verdict] = Counter()
    starts = 0
    for outcome in outcomes:
        colours[outcome.colour] += 1
        verdicts[outcome.verdict] += 1
        starts += outcome.starts
    return Cell(name, colours.total(), colours, verdicts, starts / colours.total())


def ours(scenario: Scenario, design: Ours, runs: int) -> Cell:
    rng, known = Random(f"{SEED} {scenario.name} {design.name}"), Known()
    return cell(design.name, (design.run(asker(scenario, rng), known) for _ in range(runs)))


def row(scenario: Scenario, runs: int) -> Measured:
    rng = Random(f"{SEED} {scenario.name} pairs")
    needed = [pairs_needed(asker(scenario, rng)) for _ in range(runs)]
    pairs = {
        n: cell(f"any of {n}", [any_of(n, each) for each in needed])
        for n in range(1, MOST_PAIRS + 1)
    }
    own = {design.name: ours(scenario, design, runs) for design in OURS}
    starts = own[DEFAULT.name].starts
    nearest = min(pairs, key=lambda n: (round(abs(pairs[n].starts - starts), 1), n))
    return Measured(scenario, {ONCE: pairs[1], THREE: pairs[3]} | own, pairs[nearest])


def _row(task: tuple[str, int]) -> Measured:
    name, runs = task
    return row(next(scenario for scenario in SCENARIOS if scenario.name == name), runs)


def measure(scenarios: Sequence[Scenario], runs: int) -> Iterator[Measured]:
    """The rows in their order, as they are ready."""
    with multiprocessing.Pool(min(os.cpu_count() or 1, len(scenarios))) as pool:
        yield from pool.imap(_row, [(scenario.name, runs) for scenario in scenarios])
