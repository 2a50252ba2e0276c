# SPDX-License-Identifier: Apache-2.0
"""What ci-doctor says of real servers on this machine's processors, beside what is true.

    python benchmarks/real_servers.py build [NAME ...]      the environments, once: outside the repository, the size is said first
    python benchmarks/real_servers.py experiments           every pair of arms; one night on two CPUs, may be stopped and continued
    python benchmarks/real_servers.py experiments --only prefix --only lora
    python benchmarks/real_servers.py experiments --record  also appends the table of all that has run to benchmarks/RESULTS.md

The folder is $CI_DOCTOR_REAL_SERVERS, or ~/.cache/ci-doctor-real-servers. A run that has ended is not made again: delete its
folder in `runs/` for that. Expected verdicts stand in the tables of `real_servers/`, written before a run. The exit status is
1 if one is wrong.
"""

import argparse
import importlib.metadata
import subprocess
import sys
from typing import Any

from real_servers import environments, place, running
from real_servers.experiments import EXPERIMENTS
from results import record

HEAD = (
    "experiment", "gate", "verdict", "right", "starts", "seconds", "load", "words, tokens, numbers", "below best: A, B",
)  # fmt: skip
ABOUT = """24 requests, 8 at once, two passes of each start. Words, tokens, numbers: requests that differ at this level. Below
best: by how much a chosen token is less probable than the most probable one, in nat at most, by the same weights in float64.
Load: the machine's average of the last minute, before and after."""


def experiment_row(experiment: Any, row: dict[str, Any]) -> list[str]:
    again, below = row["again"], row["below"]
    gate = (
        f"{experiment.compare} within {experiment.limit}"
        if experiment.limit
        else experiment.compare
    )
    return [
        experiment.name,
        gate,
        row["verdict"],
        "WRONG" if row["problems"] else "yes",
        str(row["starts"]),
        str(row["seconds"]),
        ", ".join(map(str, row["load"])),
        f"{again['words']}, {again['tokens']}, {again['numbers']}",
        f"{below['baseline']:.1g}, {below['candidate']:.1g}" if below else "drawn",
    ]


def as_markdown(head: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows]]


def versions() -> str:
    """Of what runs in vLLM's environment, and of ci-doctor."""
    program = "import torch, transformers as t; print('torch', torch.__version__, 'transformers', t.__version__)"
    words = [place.interpreter(), "-c", program]
    own = importlib.metadata.version("ci-doctor-toolkit")
    asked = subprocess.run(words, check=True, capture_output=True, text=True)
    return f"{place.VLLM}, {asked.stdout.strip()}, ci-doctor {own}"


def experiments(only: list[str], recorded: bool) -> int:
    """Run what has not run; returns how many are wrong."""
    wanted = [each for each in EXPERIMENTS if not only or each.name in only]
    rows, wrong = [], []
    for number, each in enumerate(wanted, 1):
        print(f"[{number}/{len(wanted)}] {each.name}", end="  ", flush=True)
        try:
            row = running.run(each)
        except RuntimeError as error:
            wrong.append(f"{each.name}: {error}")
            print(error)
            continue
        rows.append(experiment_row(each, row))
        wrong += [f"{each.name}: {problem}" for problem in row["problems"]]
        print(*rows[-1][2:], *row["problems"], sep="  ", flush=True)
    verdict = f"{len(rows)} of {len(wanted)} experiments have run, {len(wrong)} problems"
    print(verdict, *wrong, sep="\n")
    if recorded:
        lines = [*as_markdown(HEAD, rows), "", *(f"- {line}" for line in [verdict, *wrong])]
        record("real servers: experiments with vLLM", lines, f", {versions()}. {ABOUT}")
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=("build", "experiments"))
    parser.add_argument("names", nargs="*", help="environments to build")
    parser.add_argument("--only", action="append", default=[], help="one run, may be repeated")
    parser.add_argument("--record", action="store_true", help="append the table to RESULTS.md")
    arguments = parser.parse_args()
    if arguments.table == "build":
        return environments.build(arguments.names)
    try:
        return int(bool(experiments(arguments.only, arguments.record)))
    except place.MissingEnvironmentError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
