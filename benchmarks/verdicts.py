# SPDX-License-Identifier: Apache-2.0
"""How often `correctness` blames a change that is innocent, and misses one that is not, over simulated servers.

    python benchmarks/verdicts.py                    every scenario, 2,000 runs of every design, and its targets
    python benchmarks/verdicts.py --scenario S1      one scenario, may be repeated; also tells the verdicts by name
    python benchmarks/verdicts.py --record           also appends the table to benchmarks/RESULTS.md

The schedule and the verdicts are those of `ci_doctor.correctness`, not a model of them. Beside them: `once` (one A, one
B), `any of 3` (pairs until one is equal), and the limit that knows the truth. The exit status is 1 where a target is missed.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from results import options, record, table
from simulation.harness import SEED, Measured, measure
from simulation.scenario import Scenario
from simulation.scenarios import SCENARIOS
from simulation.table import HEAD, as_text, cells, verdicts
from simulation.targets import Held, Target, held

LEGEND = {
    False: "No regression, in percent: red / amber / green @ mean server starts",
    True: "A regression, in percent: green (missed) / red / amber @ mean server starts",
}


def chosen(names: Sequence[str]) -> list[Scenario]:
    if unknown := set(names) - {scenario.name for scenario in SCENARIOS}:
        known = ", ".join(scenario.name for scenario in SCENARIOS)
        raise SystemExit(f"no scenario is named {', '.join(sorted(unknown))}; there are: {known}")
    return [scenario for scenario in SCENARIOS if not names or scenario.name in names]


def grade(within: bool) -> str:
    return "PASS" if within else "FAIL"


def targets(done: Sequence[Measured]) -> tuple[list[str], bool]:
    """A line for each target that a scenario misses, one for each target over all, and whether all are met."""
    told = [each for measured in done for each in held(measured)]
    missed = [each for each in told if not each.within]
    lines = [f"FAIL  {each.scenario:<5} {each.target}: {each.figures}" for each in missed]
    lines += [
        _summary(target, told) for target in Target if any(each.target is target for each in told)
    ]
    return lines, not missed


def _summary(target: Target, told: Sequence[Held]) -> str:
    within = [each.within for each in told if each.target is target]
    return f"{grade(all(within))}  {target}: {sum(within)} of {len(within)}"


def tables(done: Sequence[Measured]) -> Iterator[str]:
    for regression, legend in LEGEND.items():
        if rows := [cells(each) for each in done if each.scenario.regression is regression]:
            yield from (f"{legend}.", "", *table(" | ".join(HEAD), rows), "")


def show(done: Sequence[Measured], details: bool) -> None:
    for regression, legend in LEGEND.items():
        if rows := [cells(each) for each in done if each.scenario.regression is regression]:
            print(f"\n{legend}\n{as_text(rows)}")
    if details:
        print("", *(line for each in done for line in verdicts(each)), sep="\n")


def parse() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument(
        "--runs", type=int, default=2000, help="runs of each design in each scenario"
    )
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="NAME",
        help="one scenario, may be repeated",
    )
    parser.add_argument("--jobs", type=int, help="processes; as many as processors by default")
    return parser.parse_args()


def main() -> int:
    arguments, began, done = parse(), time.perf_counter(), []
    scenarios = chosen(arguments.scenario)
    for each in measure(scenarios, arguments.runs, arguments.jobs):
        done.append(each)
        print(
            f"{len(done)}/{len(scenarios)} {each.scenario.name}",
            end="\r",
            file=sys.stderr,
            flush=True,
        )
    show(done, details=bool(arguments.scenario))
    lines, within = targets(done)
    seconds = time.perf_counter() - began
    print("", *lines, f"{seconds:.0f} s", sep="\n")
    if arguments.record:
        title = f"verdicts, {arguments.runs} runs a cell, seed {SEED}, {seconds:.0f} s"
        record(title, [*tables(done), *(f"- {line}" for line in lines)])
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
