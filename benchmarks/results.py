# SPDX-License-Identifier: Apache-2.0
"""Acts on RESULTS.md: what every benchmark shares: its command line, the cost of a process, tables and their record."""

import argparse
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

_RESULTS = Path(__file__).with_name("RESULTS.md")


class Cost(NamedTuple):
    """Of one process: seconds, CPU time being user and system, and the peak of memory in MB of 10^6 bytes."""

    cpu: float
    wall: float
    memory: float


def options(about: str | None) -> argparse.ArgumentParser:
    """The parser of a benchmark: its docstring as the help, and `--record`."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    return parser


def environment() -> dict[str, str]:
    """Ours, without what would change how Python starts; bytecode is kept, as it is for every user."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "CI_DOCTOR", "BUILDKITE"))
    }


def run(words: Sequence[str], cwd: Path) -> Cost:
    """The cost of a command. Raises SystemExit if it does not end with 0."""
    started = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        words, cwd=cwd, env=environment(), stdin=quiet, stdout=quiet, stderr=quiet
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)[:200]} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * 1024 / 1e6)


def load() -> str:
    """That of the last minute and of the last five, to go on after the machine."""
    return ", load {:.2f}, {:.2f}".format(*os.getloadavg()[:2])


def table(head: str, rows: Iterable[Sequence[object]]) -> list[str]:
    """Markdown: `head` has the titles between bars, all but the first column to the right."""
    lines = [f"| {head} |", "|---" + "|--:" * head.count("|") + "|"]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def machine() -> str:
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"


def record(title: str, lines: Iterable[str], about: str = "") -> None:
    """Append a section of `lines`; `about` goes on after the machine."""
    text = [f"## {datetime.now(UTC):%Y-%m-%d}: {title}", "", f"{machine()}{about}", "", *lines]
    with _RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n" + "\n".join(text).rstrip() + "\n")
