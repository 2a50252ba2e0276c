# SPDX-License-Identifier: Apache-2.0
"""What an idle preload shim costs, beside coverage.py's own start-up file.

    python benchmarks/preload.py                      in the Python that runs this
    python benchmarks/preload.py --python PY          in another one
    python benchmarks/preload.py … --record           also appends to benchmarks/RESULTS.md

Whether the race is won with the transformers of an interpreter, `ci-doctor preload verify --runs 200` says.

Costs are CPU time (user and system) of whole processes. In every round each variant runs once, in an order drawn anew;
a cost is the median of the differences to the plain variant of the same round, with a 95 % bootstrap interval. `A/A` is a
second plain environment: what it shows is noise. Ends with 1 where a target is missed.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from results import load, options, record, table

from ci_doctor.preload.preload_rule import parse_rule
from ci_doctor.preload.start_files import shim_files

PRESET = "vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig"
PLAIN, AGAIN, SHIM, COVERAGE = "nothing", "A/A", "shim", "coverage's .pth"
UNCOMPILED, COMMENT = "shim without .pyc", "a .pth of comments"
START_VARIANTS = (PLAIN, AGAIN, SHIM, COVERAGE, UNCOMPILED, COMMENT)
# The absolute targets are for this one: others pay more for any `.pth` (3.13 decodes it with a codec that it must import).
TARGET_VERSION = "Python 3.11"
SEED = 20261121


class Estimate(NamedTuple):
    """A median with its 95 % interval."""

    median: float
    low: float
    high: float

    def text(self, digits: int = 0) -> str:
        return f"{self.median:+.{digits}f} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"


class Check(NamedTuple):
    """A figure held against its target."""

    what: str
    seen: str
    target: str
    met: bool


class Environment(NamedTuple):
    """A virtual environment without pip."""

    python: Path
    site_dir: Path


def make_environment(python: str, directory: Path) -> Environment:
    subprocess.run([python, "-m", "venv", "--without-pip", directory], check=True)
    (site_dir,) = directory.glob("lib/python3.*/site-packages")
    return Environment(directory / "bin" / "python", site_dir)


def put_shim(environment: Environment, rules: Sequence[str], *, compiled: bool = True) -> None:
    for name, content in shim_files([parse_rule(text) for text in rules]).items():
        (environment.site_dir / name).write_bytes(content)
    if compiled:
        subprocess.run(
            [environment.python, "-I", "-m", "compileall", "-q", environment.site_dir], check=True
        )


def put_coverage(environments: Mapping[str, Environment]) -> str:
    """Install coverage.py into one, copy it into all, so that only the `.pth` differs; returns its version."""
    first = environments[COVERAGE]
    install = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(first.python),
        "install",
        "-q",
        "--no-input",
        "coverage",
    )
    subprocess.run(install, check=True)
    for name, environment in environments.items():
        if name != COVERAGE:
            shutil.copytree(first.site_dir, environment.site_dir, dirs_exist_ok=True)
            (environment.site_dir / "a1_coverage.pth").unlink()
    script = "import coverage; print(coverage.__version__)"
    return subprocess.run(
        [first.python, "-c", script], check=True, capture_output=True, text=True
    ).stdout.strip()


def make_start_environments(python: str, root: Path) -> tuple[dict[str, Environment], str]:
    """One for each variant, under paths of one length; and the version of coverage.py."""
    made = {
        name: make_environment(python, root / f"venv-{index}")
        for index, name in enumerate(START_VARIANTS)
    }
    version = put_coverage(made)
    put_shim(made[SHIM], [PRESET])
    put_shim(made[UNCOMPILED], [PRESET], compiled=False)
    made[UNCOMPILED].site_dir.joinpath("__pycache__").write_text(
        ""
    )  # so that nobody can write bytecode there
    made[COMMENT].site_dir.joinpath("ci_doctor_preload.pth").write_text("# nothing\n")
    return made, version


def child_environment() -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def cpu_us(words: list[str]) -> float:
    """Microseconds of CPU time of one process, user and system."""
    quiet = [(os.POSIX_SPAWN_OPEN, handle, os.devnull, os.O_RDWR, 0) for handle in (0, 1, 2)]
    process = os.posix_spawn(words[0], words, child_environment(), file_actions=quiet)
    _, status, used = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return (used.ru_utime + used.ru_stime) * 1e6


def in_rounds(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each of `runs` gave in each round, in a random order within the round."""
    chance = random.Random(SEED)
    for run in runs.values():
        run()  # writes bytecode, warms the caches
    seen: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name in chance.sample(list(runs), len(runs)):
            seen[name].append(runs[name]())
    return seen


def estimate(values: Sequence[float]) -> Estimate:
    chance = random.Random(SEED)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(2000))
    return Estimate(statistics.median(values), medians[49], medians[1949])


def differences(seen: Mapping[str, Sequence[float]], name: str) -> list[float]:
    return [value - plain for value, plain in zip(seen[name], seen[PLAIN], strict=True)]


def ratio(seen: Mapping[str, Sequence[float]], ours: str, reference: str) -> Estimate:
    """The ratio of two costs, resampled by rounds."""
    chance = random.Random(SEED)
    pairs = list(zip(differences(seen, ours), differences(seen, reference), strict=True))

    def one(sample: Sequence[tuple[float, float]]) -> float:
        return statistics.median(pair[0] for pair in sample) / statistics.median(
            pair[1] for pair in sample
        )

    ratios = sorted(one(chance.choices(pairs, k=len(pairs))) for _ in range(2000))
    return Estimate(one(pairs), ratios[49], ratios[1949])


def check(what: str, seen: str, target: str, *, met: bool) -> Check:
    print(f"{'OK  ' if met else 'MISS'} {what}: {seen} (target {target})")
    return Check(what, seen, target, met)


def measure_starts(python: str, root: Path, rounds: int) -> tuple[list[Check], list[str]]:
    made, coverage = make_start_environments(python, root)
    words = {name: [str(environment.python), "-c", "pass"] for name, environment in made.items()}
    seen = in_rounds({name: partial(cpu_us, line) for name, line in words.items()}, rounds)
    base = statistics.median(seen[PLAIN])
    costs = {name: estimate(differences(seen, name)) for name in START_VARIANTS if name != PLAIN}
    lines = [f"| {PLAIN} | {base:.0f} | |"]
    lines += [
        f"| {name} | {cost.text()} | {cost.median / base:+.1%} |" for name, cost in costs.items()
    ]
    over = [ours - theirs for ours, theirs in zip(seen[SHIM], seen[COMMENT], strict=True)]
    lines.append(
        f"| {SHIM}, over {COMMENT} | {estimate(over).text()} | {statistics.median(over) / base:+.1%} |"
    )
    print("\n".join(lines))
    shim, beside = costs[SHIM], ratio(seen, SHIM, COVERAGE)
    checks = [
        check(
            f"idle shim to the .pth of coverage {coverage}",
            beside.text(2),
            "<= 1.2",
            met=beside.median <= 1.2,
        )
    ]
    if version_of(python).startswith(TARGET_VERSION):
        share = shim.median / base
        checks.append(
            check("idle shim, a start", f"{shim.text()} us", "<= +300 us", met=shim.median <= 300)
        )
        checks.append(
            check("idle shim, share of a start", f"{share:+.1%}", "<= 4 %", met=share <= 0.04)
        )
    return checks, [
        f"{rounds} rounds, `python -c pass`, microseconds of CPU time",
        "",
        "| variant | us | |",
        "|---|--:|--:|",
        *lines,
    ]


def version_of(python: str) -> str:
    return subprocess.run([python, "-V"], check=True, capture_output=True, text=True).stdout.strip()


def summary(checks: Sequence[Check]) -> list[str]:
    rows = [(one.what, one.seen, one.target, "OK" if one.met else "MISS") for one in checks]
    return table("what | seen | target | ", rows)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter to measure (default: this one)"
    )
    parser.add_argument("--rounds", type=int, default=300, help="rounds of starts (default 300)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        checks, notes = measure_starts(arguments.python, root, arguments.rounds)
    if arguments.record:
        about = f"{load()}; measured: {version_of(arguments.python)}"
        record("preload shim", [*notes, "", *summary(checks)], about)
    return 0 if all(one.met for one in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
