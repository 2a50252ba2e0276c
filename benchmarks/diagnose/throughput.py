# SPDX-License-Identifier: Apache-2.0
"""How fast `diagnose` reads a log of 1 GB, against ripgrep with the rules' own regexes, and what memory it takes.

    python benchmarks/diagnose/throughput.py            prints the tables
    python benchmarks/diagnose/throughput.py --record   also appends them to benchmarks/RESULTS.md

Every round runs each program once on the same file, in turn; a ratio is the median over the rounds. Times are CPU
time (user and system) of the whole process, start-up included. The log is ours (made_logs.py), with the rules'
own examples as its true lines. ripgrep (`rg`) must be installed.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from made_logs import write_one_line, write_ordinary, write_repeats
from results import Cost, options, record, run

from ci_doctor.diagnosis.log_rules import LogRule, house_rules

GIGABYTE = 1_000_000_000
TRUE_LINES = 200
ROUNDS = 5
# The entry of `ci-doctor diagnose`.
ENTRY = (
    "import sys; "
    "from ci_doctor.diagnosis.diagnosis import diagnose, load_rules; "
    "diagnose([sys.argv[1]], load_rules())"
)
# The whole command, likewise.
COMMAND = (
    "import sys, runpy; "
    "sys.argv = ['ci-doctor', 'diagnose', sys.argv[1]]; "
    "runpy.run_module('ci_doctor', run_name='__main__')"
)


OURS = "ci-doctor diagnose"
# Of its speed to that of ripgrep.
TARGET = 1.0


def diagnosis(path: Path, entry: str = ENTRY) -> tuple[str, ...]:
    return (sys.executable, "-c", entry, str(path))


def ripgrep(path: Path, folder: Path, rules: Sequence[LogRule]) -> tuple[str, ...]:
    regexes = folder / "regexes"
    # ripgrep joins them to one regex, in which a name may stand once only.
    nameless = [re.sub(r"\(\?P<\w+>", "(?:", rule.regex) for rule in rules]
    regexes.write_text("".join(f"{regex}\n" for regex in nameless), encoding="utf-8")
    limits = ("--regex-size-limit", "4G", "--dfa-size-limit", "4G")
    return ("rg", "--no-config", *limits, "--count", "--file", str(regexes), str(path))


def throughput(folder: Path, rules: Sequence[LogRule], path: Path, size: int) -> list[str]:
    """Rows of a table: each program, MB/s, and its ratio to ripgrep in the same rounds."""
    programs = {"rg -f": ripgrep(path, folder, rules), OURS: diagnosis(path)}
    costs: dict[str, list[Cost]] = {title: [] for title in programs}
    for _ in range(ROUNDS):
        for title, words in programs.items():
            costs[title].append(run(words, folder))
    rows = []
    for title, each in costs.items():
        ratios = [
            ours.cpu and peer.cpu / ours.cpu
            for ours, peer in zip(each, costs["rg -f"], strict=True)
        ]
        cpu = statistics.median(cost.cpu for cost in each)
        wanted = f">= {TARGET:.1f}" if title == OURS else ""
        rows.append(
            f"| {title} | {size / 1e6 / cpu:.0f} | {statistics.median(ratios):.2f} "
            f"| {min(ratios):.2f} to {max(ratios):.2f} | {wanted} | {max(cost.memory for cost in each):.0f} |"
        )
    return rows


def hard_logs(folder: Path, true_lines: Sequence[str], size: int) -> list[str]:
    """Rows of a table: logs that could take much memory or time; `size` of the long line in bytes."""
    path = folder / "hard.log"
    writers: dict[str, Callable[[], None]] = {
        f"one line of {size / 1e9:.1f} GB": lambda: write_one_line(path, size, true_lines),
        "10^6 repeats of one error": lambda: write_repeats(
            path, 10**6, "ValueError: no such model"
        ),
        "2 * 10^6 repeats": lambda: write_repeats(path, 2 * 10**6, "ValueError: no such model"),
    }
    rows = []
    for title, write in writers.items():
        write()
        cost = run(diagnosis(path), folder)
        rows.append(f"| {title} | {cost.cpu:.2f} | {cost.memory:.0f} |")
        path.unlink()
    return rows


def first_answer(folder: Path, true_lines: Sequence[str]) -> list[str]:
    """A row: the whole command on 10 MB, in times of `ci-doctor --version`."""
    path = folder / "small.log"
    write_ordinary(path, 10_000_000, true_lines)
    version = (sys.executable, "-m", "ci_doctor", "--version")
    ours, reference = [], []
    for _ in range(4 * ROUNDS):
        ours.append(run(diagnosis(path, COMMAND), folder).cpu)
        reference.append(run(version, folder).cpu)
    ratios = [mine / other for mine, other in zip(ours, reference, strict=True)]
    row = (
        f"| {statistics.median(ratios):.2f} | <= 4.0 | {statistics.median(ours) * 1000:.0f} "
        f"| {statistics.median(reference) * 1000:.0f} |"
    )
    return [row]


def report(folder: Path, size: int) -> tuple[list[str], str]:
    """The tables, and what was measured on which machine."""
    rules = house_rules()
    examples = [example for rule in rules for example in rule.match]
    true_lines = (examples * (TRUE_LINES // len(examples) + 1))[:TRUE_LINES]
    path = folder / "ordinary.log"
    write_ordinary(path, size, true_lines)
    literals = {literal for rule in rules for literal in rule.literals}
    version = subprocess.run(["rg", "--version"], capture_output=True, text=True, check=True)
    about = (
        f", load {os.getloadavg()[0]:.2f}, {version.stdout.splitlines()[0]}; "
        f"{len(rules)} rules with {len(literals)} literals; a log of {size / 1e9:.1f} GB in the "
        f"page cache with {TRUE_LINES} true lines"
    )
    lines = [
        "| program | MB/s | times rg | range | target | peak MB |",
        "|---|--:|--:|--:|--:|--:|",
        *throughput(folder, rules, path, size),
    ]
    path.unlink()
    lines += [
        "",
        "| hard log | CPU s | peak MB (<= 200) |",
        "|---|--:|--:|",
        *hard_logs(folder, true_lines, size),
        "",
        "| 10 MB, whole command: times --version | target | CPU ms | --version, ms |",
        "|--:|--:|--:|--:|",
        *first_answer(folder, true_lines),
    ]
    return lines, about


def main() -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--size-gb", type=float, default=1.0, help="of the ordinary log and the long line"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines, about = report(Path(folder), int(arguments.size_gb * GIGABYTE))
    print(*lines, sep="\n")
    if arguments.record:
        title = f"reading logs, {ROUNDS} alternating rounds, medians of CPU time"
        record(title, lines, about)


if __name__ == "__main__":
    main()
