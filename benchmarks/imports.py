# SPDX-License-Identifier: Apache-2.0
"""How well `ci-doctor import-race` finds races that do not happen by themselves, and what recording costs.

    python benchmarks/imports.py                       runs every program of the corpus, 20 times
    python benchmarks/imports.py --transformers PY     also measures `import transformers` in that interpreter
    python benchmarks/imports.py --record              also appends the result to benchmarks/RESULTS.md

A racy program counts as flagged where its hazard is named after a run in which nothing went wrong, as confirmed where a
delay made it fire, and a safe one as a false alarm where `--confirm` ends with an error. The cost is that of paired runs
in turn (plain, plain again, recorded), by CPU time; the second plain one shows what the machine's noise alone would say.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ci_doctor.imports.recording import recording  # noqa: E402
from tests.integration.import_programs import RACY, SAFE, Program, command, usable  # noqa: E402

RESULTS = Path(__file__).with_name("RESULTS.md")
RUNS = 20
ROUNDS = 20
BUDGET = 3.0  # percent of `import transformers`
RESAMPLES = 2000


class Tally(NamedTuple):
    """Of how many runs of a program what was seen; `failed`: it failed, or its race fired, without any delay."""

    name: str
    racy: bool
    runs: int
    failed: int
    flagged: int
    errors: int

    @property
    def as_wanted(self) -> bool:
        return (
            self.flagged == self.errors == self.runs and not self.failed
            if self.racy
            else self.errors == 0
        )


class Cost(NamedTuple):
    """Percent of the plain run, its 95 % interval, and what it is in milliseconds."""

    title: str
    percent: float
    low: float
    high: float
    milliseconds: float


def environment() -> dict[str, str]:
    """Ours, without what would change how Python starts or what a job of its own would bring in."""
    foreign = ("PYTHON", "CI_DOCTOR", "BUILDKITE", "PYTEST")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def tally(program: Program, runs: int, python: str) -> Tally:
    """Run it under `--confirm` that many times."""
    failed = flagged = errors = 0
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            program.write(Path(folder))
            report = confirm(program, Path(folder), python)
        hazards = report["facts"]["hazards"]
        mine = [hazard for hazard in hazards if hazard["kind"] == program.kind]
        failed += report["facts"]["command"]["exit_code"] != 0 or any(
            each["closeness"] == "fired" for each in hazards
        )
        flagged += (
            any(set(hazard["modules"]) <= program.modules for hazard in mine)
            if program.kind
            else bool(hazards)
        )
        errors += any(finding["severity"] == "error" for finding in report["findings"])
    return Tally(program.name, program.kind is not None, runs, failed, flagged, errors)


def confirm(program: Program, folder: Path, python: str) -> dict[str, Any]:
    words = [
        sys.executable,
        "-m",
        "ci_doctor",
        "import-race",
        "--confirm",
        "--json",
        "--",
        *command(program, python),
    ]
    ended = subprocess.run(
        words,
        cwd=folder,
        env={**environment(), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if ended.returncode not in {0, 1, 86}:
        raise SystemExit(
            f"{program.name}: exit code {ended.returncode}\n{ended.stderr.decode(errors='replace')}"
        )
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def cpu_s(words: Sequence[str], variables: Mapping[str, str]) -> float:
    process = subprocess.Popen(
        words, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def costs(python: str, rounds: int) -> tuple[Cost, Cost]:
    """Of the second plain run (A/A control), and of the recorded one."""
    words = [python, "-c", "import transformers"]
    plain = environment()
    pairs: dict[str, list[tuple[float, float]]] = {"A/A control": [], "recorded": []}
    cpu_s(words, plain)  # writes the bytecode
    with tempfile.TemporaryDirectory() as folder:
        cpu_s(words, recording(plain, Path(folder)))
        variants = {"": plain, "A/A control": plain, "recorded": recording(plain, Path(folder))}
        draw = random.Random(0)
        for _ in range(rounds):
            order = draw.sample(list(variants), len(variants))  # none is always the first
            spent = {title: cpu_s(words, variants[title]) for title in order}
            for title, found in pairs.items():
                found.append((spent[""], spent[title]))
    control, recorded = (cost(title, found) for title, found in pairs.items())
    return control, recorded


def cost(title: str, pairs: Sequence[tuple[float, float]]) -> Cost:
    """The median of the paired differences, with a bootstrap interval."""
    base = statistics.median(first for first, _ in pairs)
    differences = [second - first for first, second in pairs]
    draw = random.Random(0)
    medians = sorted(
        statistics.median(draw.choices(differences, k=len(differences))) for _ in range(RESAMPLES)
    )
    low, high = medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]
    middle = statistics.median(differences)
    return Cost(title, 100 * middle / base, 100 * low / base, 100 * high / base, 1000 * middle)


def told(tallies: Sequence[Tally]) -> Iterator[str]:
    for each in tallies:
        mark = "OK" if each.as_wanted else "MISS"
        kind = "racy" if each.racy else "safe"
        yield f"{kind}, {each.name} | {each.failed} | {each.flagged} | {each.errors} | {each.runs} | {mark}"


def record(tallies: Sequence[Tally], cost_lines: Sequence[str], python: str) -> None:
    version = version_of(python)
    machine = platform.processor() or platform.machine()
    head = "| program | failed by itself | flagged | fired with a delay | runs | |\n|---|--:|--:|--:|--:|---|"
    rows = "\n".join(f"| {line} |" for line in told(tallies))
    text = f"\n## {datetime.now(UTC):%Y-%m-%d}: import races\n\n{version}, {platform.system()} {machine}, {os.cpu_count()} CPUs\n"
    text += f"\n{head}\n{rows}\n" if tallies else ""
    text += "\n" + "\n".join(f"- {line}" for line in cost_lines) + "\n" if cost_lines else ""
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(text)


def version_of(python: str) -> str:
    return subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="of each program (0: none)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each import of transformers")
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter that runs the programs"
    )
    parser.add_argument("--transformers", metavar="PY", help="an interpreter that has transformers")
    parser.add_argument("--record", action="store_true", help="append the result to RESULTS.md")
    arguments = parser.parse_args()
    tallies = []
    for program in usable((*RACY, *SAFE)) if arguments.runs else ():
        tallies.append(tally(program, arguments.runs, arguments.python))
        print(next(told(tallies[-1:])), flush=True)
    within, lines = all(each.as_wanted for each in tallies), []
    if arguments.transformers:
        control, recorded = costs(arguments.transformers, arguments.rounds)
        noise = "not told from the A/A control" if recorded.low <= control.high else "MISS"
        judged = "OK" if recorded.percent <= BUDGET else noise
        within = within and judged != "MISS"
        lines = [
            f"import transformers, {version_of(arguments.transformers)}, {each.title}: {each.percent:+.1f} % [{each.low:+.1f}, {each.high:+.1f}], "
            f"{each.milliseconds:+.1f} ms CPU, {arguments.rounds} rounds"
            for each in (control, recorded)
        ]
        lines[-1] += f" (budget {BUDGET:+.0f} %): {judged}"
        print(*lines, sep="\n")
    if arguments.record:
        record(tallies, lines, arguments.python)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
