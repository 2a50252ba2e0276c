# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor doctor` costs here: the whole against a bare start of ci-doctor, and each check by itself.

    python benchmarks/doctor.py            prints the figures
    python benchmarks/doctor.py --record   also appends them to benchmarks/RESULTS.md

The whole runs as it is typed, alternating with `ci-doctor --version`; the figures are medians. A check by itself is
`ci-doctor doctor ID`; its cost is CPU time, with that of its programs, above that of `ci-doctor doctor --list`. The
machine's load stands beside the figures, because wall clock is worse on a busy machine.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

RUNS = 10
RUNS_OF_A_CHECK = 3
COSTLIEST = 15
BUDGET_WALL_S = 2.0
CHECK_BUDGET_MS = 100.0
OURS = (sys.executable, "-m", "ci_doctor")
RESULTS = Path(__file__).with_name("RESULTS.md")


class Run(NamedTuple):
    """Seconds of one run with all its programs, and what it printed."""

    cpu: float
    wall: float
    out: str


def environment() -> dict[str, str]:
    """Ours, without what would change how Python starts."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "CI_DOCTOR", "BUILDKITE"))
    }


def run(words: Sequence[str], cwd: Path) -> Run:
    started = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            words, cwd=cwd, env=environment(), stdout=out, stderr=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    return Run(cpu=used.ru_utime + used.ru_stime, wall=wall, out=text)


def measure_whole(cwd: Path) -> tuple[list[Run], list[Run]]:
    """The runs of the whole and those of the bare start."""
    whole, bare = [], []
    run((*OURS, "doctor"), cwd)  # writes the bytecode
    for _ in range(RUNS):
        whole.append(run((*OURS, "doctor", "--json"), cwd))
        bare.append(run((*OURS, "--version"), cwd))
    return whole, bare


def check_ids(ran: Run) -> list[str]:
    """The checks that ran; those without what they look at are left out."""
    return [check["id"] for check in json.loads(ran.out)["facts"]["checks"]]


def measure_check(name: str, listing_s: float, cwd: Path) -> float:
    """Milliseconds of CPU time that one check takes by itself, the median."""
    costs = [run((*OURS, "doctor", name, "--json"), cwd).cpu for _ in range(RUNS_OF_A_CHECK)]
    return max(0.0, statistics.median(costs) - listing_s) * 1000


def measure_checks(names: Sequence[str], cwd: Path) -> dict[str, float]:
    """Milliseconds by check."""
    listings = [run((*OURS, "doctor", "--list"), cwd).cpu for _ in range(RUNS)]
    listing_s = statistics.median(listings)
    return {name: measure_check(name, listing_s, cwd) for name in names}


def whole_row(whole: Sequence[Run], bare: Sequence[Run]) -> str:
    cpu = statistics.median(each.cpu for each in whole)
    wall = statistics.median(each.wall for each in whole)
    ratio = cpu / statistics.median(each.cpu for each in bare)
    worst = max(each.wall for each in whole)
    return (
        f"{len(check_ids(whole[0]))} checks: CPU {cpu * 1000:.0f} ms, wall {wall * 1000:.0f} ms (worst "
        f"{worst * 1000:.0f} ms, budget {BUDGET_WALL_S * 1000:.0f} ms), CPU {ratio:.1f} times that of "
        "`ci-doctor --version`"
    )


def check_rows(costs: dict[str, float]) -> list[str]:
    """The costliest checks as rows of a table, and how many stay within their budget."""
    ranking = sorted(costs, key=costs.__getitem__, reverse=True)
    rows = [f"| `{name}` | {costs[name]:.0f} |" for name in ranking[:COSTLIEST]]
    within = sum(cost <= CHECK_BUDGET_MS for cost in costs.values())
    rows.append(f"| {within} of {len(costs)} checks take at most {CHECK_BUDGET_MS:.0f} ms | |")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        whole, bare = measure_whole(Path(folder))
        costs = measure_checks(check_ids(whole[0]), Path(folder))
    machine = (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, "
        f"load {load:.1f} before the first run. {whole_row(whole, bare)}."
    )
    lines = [
        f"## {datetime.now(UTC):%Y-%m-%d}: doctor, {RUNS} alternating runs, medians",
        "",
        machine,
        "",
        "| check by itself | CPU, ms |",
        "|---|--:|",
        *check_rows(costs),
    ]
    print("\n".join(lines))
    if arguments.record:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write("\n" + "\n".join(lines) + "\n")
    return 0 if statistics.median(each.wall for each in whole) <= BUDGET_WALL_S else 1


if __name__ == "__main__":
    sys.exit(main())
