# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor pytest` adds to a green suite of trivial tests, in CPU time, beside pytest itself.

    python benchmarks/pytest_overhead.py            prints a row for each way to run 5,000 tests, and 20,000
    python benchmarks/pytest_overhead.py --record   also appends them to benchmarks/RESULTS.md
    python benchmarks/pytest_overhead.py --runs 3 --tests 1000

CPU is user and system time of all processes that were waited for. The runs alternate. The figure is the difference of the
cheapest runs, since what else the machine does adds to both; the budget is 0.5 s and 50 µs a test. The median of the
differences pair by pair stands beside it.
"""

import argparse
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

RESULTS = Path(__file__).with_name("RESULTS.md")
FILES = 50
MANY = 20_000  # tests of the suite that shows what each further test costs
MANY_RUNS = 3
BUDGET_S = 0.5
BUDGET_OF_A_TEST_S = 50e-6
WAYS = {
    "one process": ("-p", "no:xdist"),
    "pytest-xdist, -n 2": ("-n2",),
    "-n 2 --dist=loadscope": ("-n2", "--dist=loadscope"),
}
MANY_WAYS = ("one process", "pytest-xdist, -n 2")
PLAIN = ("-q", "-p", "no:randomly", "-p", "no:rerunfailures", "-p", "no:cacheprovider")


class Cost(NamedTuple):
    """Seconds of one run."""

    cpu: float
    wall: float


def make_suite(root: Path, tests: int) -> None:
    root.mkdir()
    (root / "pytest.ini").write_text("[pytest]\n")
    for file in range(FILES):
        lines = [f"def test_{number}(): pass\n" for number in range(tests // FILES)]
        (root / f"test_{file}.py").write_text("".join(lines))


def run(words: Sequence[str], root: Path) -> Cost:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "CI_DOCTOR", "BUILDKITE"))
    }
    started = time.perf_counter()
    process = subprocess.Popen(
        words, cwd=root, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return Cost(cpu=used.ru_utime + used.ru_stime, wall=wall)


def measure(
    options: Sequence[str], root: Path, runs: int, extra: Sequence[str]
) -> tuple[list[Cost], list[Cost]]:
    """The costs with ci-doctor, and without it, pair by pair."""
    plain = (sys.executable, "-m", "pytest", *PLAIN, *options)
    script = Path(sys.executable).with_name("ci-doctor")
    ours = (str(script), "pytest", "--python", sys.executable, *extra, "--", *PLAIN, *options)
    run(plain, root)  # writes the bytecode
    run(ours, root)
    pairs = [(run(ours, root), run(plain, root)) for _ in range(runs)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def rows(folder: Path, tests: int, runs: int) -> list[str]:
    few = folder / "few"
    make_suite(few, tests)
    many = folder / "many"
    make_suite(many, MANY)
    made: list[str] = []
    for title, options in WAYS.items():
        made += [row(title, options, few, tests, runs, report) for report in ((), _files_in(few))]
    pairs = min(runs, MANY_RUNS)
    for title in MANY_WAYS:
        options = WAYS[title]
        made += [row(title, options, many, MANY, pairs, report) for report in ((), _files_in(many))]
    return made


def _files_in(root: Path) -> tuple[str, ...]:
    return ("--report-dir", str(root / "report"))


def row(
    title: str, options: Sequence[str], root: Path, tests: int, runs: int, report: Sequence[str]
) -> str:
    budget = BUDGET_S + tests * BUDGET_OF_A_TEST_S
    ours, plain = measure(options, root, runs, report)
    cpu = min(cost.cpu for cost in plain)
    added = min(cost.cpu for cost in ours) - cpu
    paired = statistics.median(mine.cpu - its.cpu for mine, its in zip(ours, plain, strict=True))
    wall = statistics.median(mine.wall / its.wall for mine, its in zip(ours, plain, strict=True))
    within = "yes" if added <= budget else "no"
    kept = "with files" if report else "no files"
    made = (
        f"| {tests:,} | {title}, {kept} | {len(ours)} | {cpu:.2f} | {added:+.2f} "
        f"| {paired:+.2f} | {budget:.2f} | {within} | {wall:.2f} |"
    )
    print(made, flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--tests", type=int, default=5000)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        made = rows(Path(folder), arguments.tests, arguments.runs)
    if arguments.record:
        head = (
            f"\n## {datetime.now(UTC):%Y-%m-%d}: ci-doctor pytest on trivial tests, the "
            "cheapest runs of alternating pairs\n\n"
            f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
            f"{os.cpu_count()} CPUs, load {load:.1f} before the first run. Report files: with `--report-dir`.\n\n"
            "| tests | suite | pairs | CPU of pytest, s | added CPU, s | median of pairs, s | budget, s | within | wall, ratio |\n"
            "|--:|---|--:|--:|--:|--:|--:|---|--:|\n"
        )
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(head + "".join(f"{line}\n" for line in made))


if __name__ == "__main__":
    main()
