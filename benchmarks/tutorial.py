# SPDX-License-Identifier: Apache-2.0
"""How long docs/tutorial.md takes: its commands are run from an empty folder, as a reader types them.

    python benchmarks/tutorial.py            prints the seconds of each step
    python benchmarks/tutorial.py --record   also appends them to benchmarks/RESULTS.md

The installation is the page's own: a new virtual environment and pip, so a package index must be
reachable (or PIP_INDEX_URL, PIP_FIND_LINKS). The clone beside the folder is a link to this
checkout. The exit status is 1 if a command ends in another way than the page says.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from page_steps import ChangedFile, Commands, WrittenFile, first_missing_line, steps_of
from results import record

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
WORDS_A_MINUTE = 100  # an assumption: slow reading, in a second language, with an editor open


class Took(NamedTuple):
    """A command of the page, and its seconds of wall clock."""

    command: str
    seconds: float


def run_page(folder: Path) -> list[Took]:
    """Run every step below `folder`. Raises SystemExit if one does not end as the page says."""
    (folder / "ci-doctor").symlink_to(ROOT)
    work = folder / "first-verdict"
    path = f"{work}/.venv/bin:{os.environ['PATH']}"
    # The order of starts is drawn: the page shows that of one seed.
    environ = {**os.environ, "PATH": path, "CI_DOCTOR_CORRECTNESS_SEED": "2"}
    took: list[Took] = []
    for step in steps_of(PAGE.read_text(encoding="utf-8")):
        if isinstance(step, WrittenFile):
            (work / step.name).parent.mkdir(parents=True, exist_ok=True)
            (work / step.name).write_text(step.text, encoding="utf-8")
        elif isinstance(step, ChangedFile):
            subprocess.run(["git", "apply"], cwd=work, input=step.diff, text=True, check=True)
        else:
            started = time.monotonic()
            run_commands(step, work if work.exists() else folder, environ)
            command = step.script.strip().splitlines()[-1]
            took.append(Took(command, time.monotonic() - started))
    return took


def run_commands(step: Commands, cwd: Path, environ: Mapping[str, str]) -> None:
    ran = subprocess.run(
        ["sh", "-c", step.script],
        cwd=cwd,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ran.returncode != step.expected_status:
        raise SystemExit(f"{step.script}ended with {ran.returncode}:\n{ran.stdout}")
    missing = first_missing_line(step.output or "", ran.stdout)
    if missing is not None:
        raise SystemExit(f"{step.script}did not print the page's line {missing!r}:\n{ran.stdout}")


def report(took: list[Took], words: int) -> list[str]:
    lines = ["| command | seconds |", "|---|--:|"]
    lines += [f"| `{each.command}` | {each.seconds:.0f} |" for each in took]
    machine = sum(each.seconds for each in took)
    lines.append(f"| the machine, in all | {machine:.0f} |")
    minutes = words / WORDS_A_MINUTE
    reading = f"| reading {words} words at {WORDS_A_MINUTE} a minute | {60 * minutes:.0f} |"
    return [*lines, reading, f"| together | {machine + 60 * minutes:.0f} |"]


def words_to_read(page: str) -> int:
    """The words outside blocks."""
    outside = page.split("```")[::2]
    return len(" ".join(outside).split())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder:
        took = run_page(Path(folder))
    lines = report(took, words_to_read(PAGE.read_text(encoding="utf-8")))
    print(*lines, sep="\n")
    if arguments.record:
        record("the tutorial", lines, f", load {os.getloadavg()[0]:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
