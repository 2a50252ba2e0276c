# SPDX-License-Identifier: Apache-2.0
"""What ci-doctor says of real servers on this machine's processors, beside what is true.

    python benchmarks/real_servers.py build [NAME ...]      the environments, once: outside the repository, the size is said first
    python benchmarks/real_servers.py experiments           every pair of arms; one night on two CPUs, may be stopped and continued
    python benchmarks/real_servers.py experiments --only prefix --only lora
    python benchmarks/real_servers.py faults                faults of vLLM's own source, planted into a copy of its environment
    python benchmarks/real_servers.py failures              a server that fails in each of many ways, seen by each command
    python benchmarks/real_servers.py others                vLLM of another version, LMCache, transformers' server, llama.cpp
    python benchmarks/real_servers.py compile-caches        what a saved compile cache of vLLM is worth in another folder, another environment
    python benchmarks/real_servers.py night                 all of these, if vLLM's environment is there
    python benchmarks/real_servers.py experiments --record  also appends the table of all that has run to benchmarks/RESULTS.md

The folder is $CI_DOCTOR_REAL_SERVERS, or ~/.cache/ci-doctor-real-servers. A run that has ended is not made again: delete its
folder in `runs/` for that, or name another folder than `runs` with $CI_DOCTOR_REAL_RUNS. Expected verdicts stand in the tables of `real_servers/`, written before a run. The exit status is
1 if one is wrong.
"""

import argparse
import importlib.metadata
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from real_servers import compile_caches, environments, failures, others, place, planting, running
from real_servers.experiments import EXPERIMENTS
from real_servers.faults import FAULTS, Fault, PatchError
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


FAULT_HEAD = (
    "fault", "issue", "verdict", "right", "starts", "seconds", "load", "differ", "float64: A, B", "1 start of 3, passes",
)  # fmt: skip
FAULTS_ABOUT = """Each fault replaces one text of vLLM's source in the candidate. 24 requests, 8 at once, two passes of each
start. Differ: requests at the level of the gate. float64: by how much a chosen token is less probable than the best one, or a
number is off, in nat at most, or answers with another text than that of their tokens. The last column: of 400 runs drawn from
these starts, with the fault in one start of three, how many pass with 1, 3 and 10 candidate starts; the printed bounds are
98, 71 and 31 %. Load: the machine's average of the last minute, before and after."""


def fault_row(fault: Fault, row: dict[str, Any]) -> list[str]:
    readings = [
        f"{row['exact'][arm][fault.seen or 'choice']:.2g}" for arm in ("baseline", "candidate")
    ]
    level = "numbers" if fault.arms.compare == "numbers" else "tokens"
    return [
        fault.name,
        fault.source,
        row["verdict"],
        "WRONG" if row["problems"] else "yes",
        str(row["starts"]),
        str(row["seconds"]),
        ", ".join(map(str, row["load"])) or "–",
        str(row["levels"][level]),
        f"{', '.join(readings)} ({fault.seen or 'choice'})",
        ", ".join(f"{each['passed'] / each['runs']:.1%}" for each in row["resampled"].values()),
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


class Table(NamedTuple):
    """What can be run, and how a row of it reads."""

    title: str
    head: tuple[str, ...]
    about: str
    entries: Sequence[Any]
    run: Callable[[Any], dict[str, Any]]
    row: Callable[[Any, dict[str, Any]], list[str]]


TABLES = {
    "experiments": Table("experiments with vLLM", HEAD, ABOUT, EXPERIMENTS, running.run, experiment_row),
    "faults": Table("faults planted into vLLM", FAULT_HEAD, FAULTS_ABOUT, FAULTS, planting.run, fault_row),
    "failures": Table("failures of vLLM", failures.HEAD, failures.ABOUT, failures.FAILURES, failures.run, failures.table_row),
    "others": Table("other servers", others.HEAD, others.ABOUT, others.OTHERS, others.run, others.cells),
    "compile-caches": Table("compile caches of vLLM", compile_caches.HEAD, compile_caches.ABOUT, compile_caches.STARTS, compile_caches.run, compile_caches.table_row),
}  # fmt: skip


def made(name: str, only: list[str], is_recorded: bool, is_kept: bool) -> int:
    """Run what has not run, or nothing; returns how many rows are wrong.

    Raises MissingEnvironmentError, and PatchError if a fault is for another version of vLLM.
    """
    table = TABLES[name]
    wanted = [each for each in table.entries if not only or each.name in only]
    ready = [each for each in wanted if not is_kept or place.kept_row(name, each.name)]
    rows, wrong = [], []
    for number, each in enumerate(ready, 1):
        print(f"[{number}/{len(ready)}] {each.name}", end="  ", flush=True)
        try:
            row = table.run(each)
        except RuntimeError as error:
            wrong.append(f"{each.name}: {error}")
            print(error)
            continue
        rows.append(table.row(each, row))
        wrong += [f"{each.name}: {problem}" for problem in row["problems"]]
        print(*rows[-1][2:], *row["problems"], sep="  ", flush=True)
    verdict = f"{len(rows)} of {len(wanted)} {name} have run, {len(wrong)} problems"
    print(verdict, *wrong, sep="\n")
    if is_recorded:
        lines = [*as_markdown(table.head, rows), "", *(f"- {line}" for line in [verdict, *wrong])]
        record(f"real servers: {table.title}", lines, f", {versions()}. {table.about}")
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=("build", "night", *TABLES))
    parser.add_argument("names", nargs="*", help="environments to build")
    parser.add_argument("--only", action="append", default=[], help="one run, may be repeated")
    parser.add_argument("--record", action="store_true", help="append the table to RESULTS.md")
    parser.add_argument(
        "--kept", action="store_true", help="only what has run before: start nothing"
    )
    arguments = parser.parse_args()
    if arguments.table == "build":
        return environments.build(arguments.names)
    names = [arguments.table]
    if arguments.table == "night":
        if environments.python_of(place.VLLM) is None:
            print(f"not run: {place.VLLM} is not in {environments.home()}")
            return 0
        names = list(TABLES)
    try:
        wrong = [made(each, arguments.only, arguments.record, arguments.kept) for each in names]
        return int(any(wrong))
    except (place.MissingEnvironmentError, PatchError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
