# SPDX-License-Identifier: Apache-2.0
"""How often a green verdict of `correctness` prints a bound that is not true, over simulated servers with noise.

    python benchmarks/printed_risk.py              every cell, and the target: false in 5 % of experiments at most
    python benchmarks/printed_risk.py --runs 500   fewer experiments a cell
    python benchmarks/printed_risk.py --record     also appends the table to benchmarks/RESULTS.md

A cell is a world (prompts, kind and rate of the noise in both arms, kind and share of the candidate's fault) under one
design. An experiment is false if its verdict is green, and the printed bound is at most the true share of faulty starts.
A row shows its worst cell, which a first pass with few experiments finds, and which is then measured anew: the worst of
many is always worse than it is. The exit status is 1 if the share of such a cell is above 5 % beyond chance.
"""

import argparse
import math
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import NamedTuple

from printed_bound.experiments import Design, Experiments, Fault, Noise, World
from startup import RESULTS

from ci_doctor.correctness.settings import Rules

# Products of small matrices: threads only wait for each other. numpy reads it when it is loaded, late.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

SEED = 20_261_122
PROMISED = 0.05
PROMPTS = (1, 10, 40)
RATES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.10)
# With the shares at which a bound of one to four clean starts becomes false.
SHARES = (0.10, 0.30, 0.53, 0.64, 0.78, 0.85, 0.95)
DESIGNS = (
    Design("default", Rules()),
    Design("nightly", Rules(retries=4, least_candidates=4)),
    Design("archive 6", Rules(), archived=6),
)
# Of some hundred cells at the limit, several exceed it by chance: a failure is 4 standard errors above.
SURE = 4.0
# The first pass finds the worst cells with this part of the experiments.
FIRST = 25


class Cell(NamedTuple):
    """Of `runs` experiments, how many were green, printed a bound, and printed a false one."""

    world: World
    design: Design
    runs: int
    green: int
    bounded: int
    false: int

    @property
    def share(self) -> float:
        return self.false / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """Of the share, 95 % (Wilson 1927)."""
        return wilson(self.false, self.runs, 1.96)

    @property
    def holds(self) -> bool:
        return wilson(self.false, self.runs, SURE)[0] <= PROMISED


def wilson(events: int, trials: int, z: float) -> tuple[float, float]:
    share = events / trials
    middle = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def worlds() -> Iterator[World]:
    for prompts in PROMPTS:
        for rate in RATES:
            for noise in Noise if rate else [Noise.REQUEST_NEW]:
                for fault in Fault:
                    for shows in SHARES:
                        yield World(prompts, noise, rate, fault, shows)


class Task(NamedTuple):
    """A cell to measure; `part` makes its random numbers its own."""

    world: World
    design: Design
    runs: int
    part: str


def measured(task: Task) -> Cell:
    world, design = task.world, task.design
    experiments = Experiments(world, design, Random(f"{SEED} {task.part} {world} {design.name}"))
    green = bounded = false = 0
    for _ in range(task.runs):
        printed = experiments.run()
        green += printed.green
        if printed.green and printed.bound is not None:
            bounded += 1
            false += printed.bound <= world.shows
    return Cell(world, design, task.runs, green, bounded, false)


Group = tuple[str, str, float, int]


def groups(cells: Sequence[Cell]) -> dict[Group, list[Cell]]:
    """By design, kind and rate of the noise, and number of prompts."""
    found: dict[Group, list[Cell]] = {}
    for cell in cells:
        world = cell.world
        noise = str(world.noise) if world.rate else "none"
        key = (cell.design.name, noise, world.rate, world.prompts)
        found.setdefault(key, []).append(cell)
    return found


def rows(
    first: Mapping[Group, list[Cell]], anew: Mapping[Group, Cell]
) -> Iterator[tuple[str, ...]]:
    lines: dict[tuple[str, str, float], list[str]] = {}
    for (design, noise, rate, prompts), cells in first.items():
        cell = anew[design, noise, rate, prompts]
        low, high = cell.interval
        green = sum(each.green for each in cells)
        shown = 100 * sum(each.bounded for each in cells) / max(1, green)
        text = f"{100 * cell.share:.1f} [{100 * low:.1f}, {100 * high:.1f}] / {shown:.0f}"
        lines.setdefault((design, noise, rate), []).append(text)
    for (design, noise, rate), texts in lines.items():
        yield (design, noise, f"{100 * rate:g} %", *texts)


HEAD = ("design", "noise of", "rate", *(f"{prompts} prompts" for prompts in PROMPTS))
LEGEND = (
    "False bounds in percent of all experiments, worst cell with its 95 % interval "
    f"(at most {100 * PROMISED:g} is promised) / of all green verdicts, percent that print a bound"
)


def as_markdown(lines: Sequence[tuple[str, ...]]) -> str:
    table = [HEAD, ("---", "---", "--:", *("--:" for _ in PROMPTS)), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def conclusion(cells: Sequence[Cell]) -> list[str]:
    broken = [cell for cell in cells if not cell.holds]
    cell = max(cells, key=lambda each: each.share)
    low, high = cell.interval
    false = sum(each.false for each in cells)
    runs = sum(each.runs for each in cells)
    grade = "FAIL" if broken else "PASS"
    held = f"{len(cells) - len(broken)} of {len(cells)} worst cells"
    return [
        f"{grade}  false bounds <= 5 %: {held}, {100 * false / runs:.2f} % of their {runs} experiments",
        f"the worst {100 * cell.share:.1f} % [{100 * low:.1f}, {100 * high:.1f}]: {described(cell)}",
        *(f"FAIL  {100 * each.share:.1f} %: {described(each)}" for each in broken[:10]),
    ]


def described(cell: Cell) -> str:
    world = cell.world
    return (
        f"{cell.design.name}, {world.prompts} prompts, {100 * world.rate:g} % noise of {world.noise}, "
        f"a fault in {100 * world.shows:g} % of starts ({world.fault})"
    )


def record(table: str, lines: Sequence[str], runs: int, seconds: float) -> None:
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    text = [
        f"\n## {datetime.now(UTC):%Y-%m-%d}: printed risk, {runs} runs a cell, {seconds:.0f} s",
        f"\n{machine}, {os.cpu_count()} CPUs\n\n{LEGEND}.\n\n{table}\n",
        *(f"- {line}" for line in lines),
    ]
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000, help="experiments of each worst cell")
    parser.add_argument("--record", action="store_true", help="append the table to RESULTS.md")
    arguments = parser.parse_args()
    began = time.perf_counter()
    few = max(20, arguments.runs // FIRST)
    tasks = [Task(world, design, few, "first") for design in DESIGNS for world in worlds()]
    with multiprocessing.Pool(min(os.cpu_count() or 1, 2)) as pool:
        first = groups(pool.map(measured, tasks, chunksize=4))
        worst = {key: max(cells, key=lambda each: each.share) for key, cells in first.items()}
        again = [Task(each.world, each.design, arguments.runs, "anew") for each in worst.values()]
        cells = pool.map(measured, again, chunksize=1)
    table = as_markdown(list(rows(first, dict(zip(worst, cells, strict=True)))))
    lines = conclusion(cells)
    print(f"{LEGEND}\n\n{table}\n", *lines, sep="\n")
    if arguments.record:
        record(table, lines, arguments.runs, time.perf_counter() - began)
    return 0 if all(cell.holds for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
