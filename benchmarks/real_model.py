# SPDX-License-Identifier: Apache-2.0
"""Whether `ci-doctor correctness` is right about a real model: a Llama of torch and transformers, on the CPU.

    python benchmarks/real_model.py --out DIR              every pair of arms; 40 minutes on 2 busy CPUs
    python benchmarks/real_model.py --out DIR --only rope  one pair, may be repeated
    python benchmarks/real_model.py --out DIR --python VENV/bin/python   torch and transformers are there already
    python benchmarks/real_model.py --out DIR --read       reads the runs in DIR again, and starts none
    python benchmarks/real_model.py --out DIR --record     also appends the table to benchmarks/RESULTS.md

The arms differ in one switch: batching, threads, bfloat16, reuse of keys and values, a wrong weight, a rope that is off by
one for long prompts. `real_model/pairs.py` says which verdicts are right. Two readings stand beside each report. One reads
samples.jsonl again, with no code of ci-doctor: as many requests must differ at each level, and the numbers must lie as far
apart. The other computes the log-probabilities of each answer with the sound model in float64: an arm's numbers are off by rounding,
or by more than the limit if its computation is another one.

DIR keeps each run with its report. The exit status is 1 if a verdict or a figure is wrong.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from real_model.pairs import LIMIT, PAIRS
from real_model.running import Place, Result, read, run
from results import record

TOOLS = Path.home() / ".cache" / "ci-doctor-benchmark" / "torch"
PACKAGES = ("torch==2.13.0", "transformers==5.23.0")
HEAD = (
    "pair", "gate", "verdict", "exit", "starts", "words", "tokens", "numbers", "apart", "off: A, B", "choice: A, B",
)  # fmt: skip
ABOUT = """Llama of 4 layers and 256 dimensions, 24 requests. In brackets:
requests that differ at this level. Distances in nat, the largest each: between answers of the same words (apart), from
the sound model in float64 (off), between a chosen token and the most probable one (choice)."""


def installed() -> Path:
    """The Python of an environment of its own, with torch."""
    python = TOOLS / "bin" / "python"
    if not any(TOOLS.glob("lib/*/site-packages/transformers")):
        subprocess.run([sys.executable, "-m", "venv", TOOLS], check=True)
        subprocess.run([python, "-m", "pip", "-q", "install", *PACKAGES], check=True)
    return python


def row(result: Result) -> list[str]:
    levels = [
        f"{each.verdict} ({each.differing})"
        for each in (result.levels[name] for name in ("words", "tokens", "numbers"))
    ]
    baseline, candidate = result.off["baseline"], result.off["candidate"]
    return [
        result.pair.name,
        result.pair.gate,
        result.verdict,
        str(result.code),
        str(result.starts),
        *levels,
        f"{result.nat:.2g}",
        f"{baseline.numbers:.2g}, {candidate.numbers:.2g}",
        f"{baseline.choice:.2g}, {candidate.choice:.2g}",
    ]


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", "---", "---", "--:", "--:", "---", "---", "---", "--:", "--:", "--:"]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [HEAD, rule, *rows])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--python", type=Path, help="a Python that has torch and transformers")
    names = [pair.name for pair in PAIRS]
    parser.add_argument("--only", action="append", choices=names, help="one pair, may be repeated")
    parser.add_argument("--read", action="store_true", help="start no run, read those in DIR")
    parser.add_argument("--record", action="store_true", help="append the table to RESULTS.md")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    pairs = [pair for pair in PAIRS if not arguments.only or pair.name in arguments.only]
    # Not resolved: the link in a virtual environment is what makes it that.
    python = (arguments.python or installed()).absolute()
    place = Place(python, arguments.out.resolve())
    if not arguments.read:
        place.prepare()
    rows, wrong, seconds = [], [], 0.0
    for pair in pairs:
        if not arguments.read:
            run(pair, place)
        result = read(pair, place)
        rows.append(row(result))
        seconds += result.seconds
        wrong += [f"WRONG  {pair.name}: {problem}" for problem in result.problems]
        print(
            "  ".join(rows[-1]), f"{result.seconds:.0f} s", *result.problems, sep="  ", flush=True
        )
    grade = "FAIL" if wrong else "PASS"
    lines = [f"{grade}  {len(pairs)} pairs, limit {LIMIT}", *wrong]
    print(*lines, sep="\n")
    if arguments.record:
        title = f"a real model on the CPU, {len(rows)} of {len(PAIRS)} pairs"
        about = f", {place.versions()}, {seconds:.0f} s; {ABOUT}"
        record(title, [as_markdown(rows), "", *(f"- {line}" for line in lines)], about)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
