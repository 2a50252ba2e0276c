# SPDX-License-Identifier: Apache-2.0
"""What a start of ci-doctor costs, against importing the libraries it cannot do without, in the same interpreter.

    python benchmarks/startup.py            prints two ratios and whether each is within its budget
    python benchmarks/startup.py --record   also appends them to benchmarks/RESULTS.md

Each ratio is that of two medians over alternating runs, once by CPU time (user and system) and once by wall clock.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from results import Cost, options, record, run, table

RUNS = 30
PYPROJECT = """
[build-system]
requires = ["setuptools>=64", "setuptools-scm>=8"]
build-backend = "setuptools.build_meta"
[project]
name = "measured"
dynamic = ["version"]
[tool.setuptools_scm]
"""
TAGS = ("v0.1.0", "v0.2.0", "v0.3.0", "v1.0.0", "nightly-cu13")


class Pair(NamedTuple):
    """Two command lines and what the first may cost in times of the second."""

    title: str
    ours: Sequence[str]
    reference: Sequence[str]
    budget: float


def pairs() -> tuple[Pair, ...]:
    script = Path(sys.executable).with_name("ci-doctor")
    ours = (str(script),) if script.exists() else (sys.executable, "-m", "ci_doctor")
    return (
        Pair(
            "ci-doctor --version / import click",
            (*ours, "--version"),
            (sys.executable, "-c", "import click"),
            2.0,
        ),
        Pair(
            # Without the proof of the pin, whose cost is the project's own build.
            "ci-doctor setup-env --verify never / import git, vcs_versioning",
            (*ours, "setup-env", "--verify", "never"),
            (sys.executable, "-c", "import git, vcs_versioning"),
            1.6,
        ),
    )


def make_project(root: Path) -> None:
    """A setuptools-scm project with five tags, one of them no version."""
    git = ("git", "-c", "user.name=b", "-c", "user.email=b@example.org")
    (root / "pyproject.toml").write_text(PYPROJECT)
    subprocess.run([*git, "init", "-q"], cwd=root, check=True)
    subprocess.run([*git, "add", "."], cwd=root, check=True)
    for tag in TAGS:
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", tag], cwd=root, check=True)
        subprocess.run([*git, "tag", tag], cwd=root, check=True)


def measure(pair: Pair, cwd: Path) -> tuple[Cost, Cost]:
    """The medians of our command line and of the reference."""
    for words in (pair.ours, pair.reference):
        run(words, cwd)  # writes the bytecode
    ours, reference = zip(
        *((run(pair.ours, cwd), run(pair.reference, cwd)) for _ in range(RUNS)), strict=True
    )
    return median(ours), median(reference)


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(*(statistics.median(values) for values in zip(*costs, strict=True)))


def main() -> int:
    parser = options(__doc__)
    arguments = parser.parse_args()
    rows, within = [], True
    with tempfile.TemporaryDirectory() as folder:
        make_project(Path(folder))
        for pair in pairs():
            ours, reference = measure(pair, Path(folder))
            ratio = ours.cpu / reference.cpu
            within = within and ratio <= pair.budget
            print(
                f"{pair.title}: CPU {ratio:.2f}, wall {ours.wall / reference.wall:.2f} (budget {pair.budget})"
            )
            cells = [f"{ratio:.2f}", f"{ours.wall / reference.wall:.2f}", f"{pair.budget:.1f}"]
            cells += [
                f"{1000 * mine:.0f} / {1000 * other:.0f}"
                for mine, other in ((ours.cpu, reference.cpu), (ours.wall, reference.wall))
            ]
            rows.append((pair.title, *cells))
    if arguments.record:
        head = "pair | ratio, CPU | ratio, wall | budget | CPU, ms | wall, ms"
        record(f"start-up, {RUNS} alternating runs, medians", table(head, rows))
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
