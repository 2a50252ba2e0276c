# SPDX-License-Identifier: Apache-2.0
"""What one verdict costs: 40 starts that answered 10,000 requests, in a process of its own.

    python benchmarks/decision_cost.py            each kind of answers, and whether it is within 1 s and 300 MB
    python benchmarks/decision_cost.py --record   also appends them to benchmarks/RESULTS.md

The kinds: equal answers, 2 % noise, two modes, and answers that differ from start to start. The time is that of the
decision alone, in processor seconds, the best of three in three processes; the memory is the most that such a process ever
held, answers and interpreter included. The exit status is 1 where a limit is missed.
"""

import argparse
import os
import platform
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from startup import RESULTS

STARTS, REQUESTS = 40, 10_000
MOST_SECONDS, MOST_MB = 1.0, 300
PROCESSES = 3


def equal(_: random.Random, __: int, request: int) -> str:
    return f"usual {request}"


def noisy(rng: random.Random, start: int, request: int) -> str:
    return f"noise {start} {request}" if rng.random() < 0.02 else f"usual {request}"


def modes(_: random.Random, start: int, request: int) -> str:
    return f"mode {request}" if start % 3 == 0 and request % 2 else f"usual {request}"


def different(_: random.Random, start: int, request: int) -> str:
    return f"start {start} {request}"


KINDS: dict[str, Callable[[random.Random, int, int], str]] = {
    "equal": equal,
    "2 % noise": noisy,
    "two modes": modes,
    "all different": different,
}


class Cost(NamedTuple):
    """Seconds of one decision, and the most memory of its process in MB."""

    seconds: float
    memory: float

    @property
    def within(self) -> bool:
        return self.seconds <= MOST_SECONDS and self.memory <= MOST_MB


def decide_once(kind: str) -> None:
    """One decision in this process; prints its seconds, its peak memory in MB, and the verdict."""
    from ci_doctor.correctness.settings import Arm, Rules
    from ci_doctor.correctness.verdict.decide import decide
    from ci_doctor.correctness.verdict.starts import ArmStart

    rng = random.Random(0)
    names = [f"r{number}" for number in range(REQUESTS)]
    arms = [Arm.BASELINE, Arm.CANDIDATE] * (STARTS // 2)
    starts = []
    for number, arm in enumerate(arms):
        answers = {name: KINDS[kind](rng, number, place) for place, name in enumerate(names)}
        starts.append(ArmStart(arm=arm, number=number // 2 + 1, answers=answers))
    began = time.process_time()
    decision = decide(starts, names, Rules(max_starts=STARTS), complete=True)
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(seconds, memory, decision.verdict)


def measured(kind: str) -> Cost:
    command = [sys.executable, __file__, "--kind", kind]
    costs = []
    for _ in range(PROCESSES):
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, memory, _ = output.split()
        costs.append(Cost(float(seconds), float(memory)))
    return min(costs)


def line(kind: str, cost: Cost) -> str:
    grade = "PASS" if cost.within else "FAIL"
    return f"{grade}  {kind}: {cost.seconds:.2f} s, {cost.memory:.0f} MB"


def record(lines: list[str]) -> None:
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    text = [
        f"\n## {datetime.now(UTC):%Y-%m-%d}: one verdict over {STARTS} starts and {REQUESTS} requests",
        f"\n{machine}, {os.cpu_count()} CPUs; at most {MOST_SECONDS:g} s and {MOST_MB} MB.\n",
        *(f"- {each}" for each in lines),
    ]
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="append the lines to RESULTS.md")
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.kind:
        decide_once(arguments.kind)
        return 0
    costs = {kind: measured(kind) for kind in KINDS}
    lines = [line(kind, cost) for kind, cost in costs.items()]
    print(*lines, sep="\n")
    if arguments.record:
        record(lines)
    return 0 if all(cost.within for cost in costs.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
