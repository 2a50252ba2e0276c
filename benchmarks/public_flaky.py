# SPDX-License-Identifier: Apache-2.0
"""Which kinds and culprits `--explain-flaky` names in published suites whose tests depend on their order.

    python benchmarks/public_flaky.py                downloads the sdists, installs each in a folder of its own
    python benchmarks/public_flaky.py humanize       those suites alone
    python benchmarks/public_flaky.py --sdists DIR   sdists that are there already are not downloaded
    python benchmarks/public_flaky.py --record       also appends the table to benchmarks/RESULTS.md

Each suite runs from its unpacked sdist in the order of a seed of pytest-randomly or pytest-random-order. Its labels stand in
`public_flaky_suites.py`. A person read the tests and wrote them: what breaks each test that fails in this order,
and which tests fail in every order. Of each explanation both commands are run in a shell. It counts as

- `right`: kind, culprit and item are those of the label, and the commands end as the finding says.
- `no item`: kind, culprit and commands are right. What the culprit leaves was not named.
- `WRONG`: one of them is not. A test that fails in every order, or that has no label, must have no kind.
- `unexplained`: the time was over, or no condition decided.
- `not shown`: it did not fail here. The order depends on the versions of Python and of the plugin.

The exit status is 1 if something is WRONG, if nothing is right, or if a suite could not be tried.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from public_flaky_suites import PYTEST, SUITES, PublicSuite, VictimLabel
from sdist_checkouts import Environment, NotTriedError, download
from startup import RESULTS

from ci_doctor.system.processes.limited_runs import run_limited

RIGHT, NO_ITEM, WRONG, UNEXPLAINED, NOT_SHOWN = OUTCOMES = (
    "right", "no item", "WRONG", "unexplained", "not shown",
)  # fmt: skip
# For the suite, its attempts and all explanations; and for one printed command.
SUITE_LIMIT_S = 1200
COMMAND_LIMIT_S = 120
# No plugin comes in by itself: the order is that of the seed alone.
BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"}


@dataclass(frozen=True)
class Row:
    """What was found for one test, and whether it is right. why: what is wrong."""

    test: str
    outcome: str
    kind: str = ""
    culprit: str = ""
    runs: int = 0
    seconds: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class Tried:
    """A suite with its rows, the number of its tests, and the seconds of the whole run."""

    suite: PublicSuite
    rows: tuple[Row, ...] = ()
    tests: int = 0
    seconds: float = 0.0
    error: str = ""

    def count(self, outcome: str) -> int:
        return sum(row.outcome == outcome for row in self.rows)


def try_suite(suite: PublicSuite, sdists: Path, budget: str) -> Tried:
    try:
        sdist = download(suite.sdist, sdists)
        with tempfile.TemporaryDirectory(prefix="public-flaky-") as place:
            return tried_at(suite, sdist, Path(place), budget)
    except (NotTriedError, subprocess.CalledProcessError) as error:
        return Tried(suite, error=str(getattr(error, "stderr", None) or error)[:200])


def tried_at(suite: PublicSuite, sdist: Path, place: Path, budget: str) -> Tried:
    environment = Environment(place / "venv")
    environment.add([*PYTEST, *suite.requires, str(sdist)])
    with tarfile.open(sdist) as archive:
        archive.extractall(place / "src", filter="data")
    [root] = (place / "src").iterdir()
    began = time.monotonic()
    report = explained(suite, root, place, budget)
    seconds = time.monotonic() - began
    by_name = {test["test"]: test for test in report["facts"]["tests"]}
    if not by_name:
        return Tried(suite, error="the run reported no test")
    rows = tuple(rows_of(suite, by_name, root))
    return Tried(suite, rows, count_of_tests(report), seconds)


def explained(suite: PublicSuite, root: Path, place: Path, budget: str) -> dict[str, Any]:
    """The report of `ci-doctor pytest --explain-flaky` over the suite."""
    reports = place / "report"
    python = str(place / "venv" / "bin" / "python")
    command = [
        sys.executable, "-m", "ci_doctor", "pytest", "--explain-flaky", "--explain-budget", budget,
        "--reruns", "1", "--python", python, "--report-dir", str(reports), "--",
        "-q", "-o", "addopts=", "-p", "no:cacheprovider", *suite.arguments,
    ]  # fmt: skip
    ran = run_limited(command, timeout_s=SUITE_LIMIT_S, cwd=root, environ=os.environ | BARE)
    path = reports / "report.json"
    if ran.exit_code is None or not path.exists():
        raise NotTriedError(f"no report, exit code {ran.exit_code}: {ran.last_words}")
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def count_of_tests(report: Mapping[str, Any]) -> int:
    return sum(report["facts"]["counts"].values())


def rows_of(suite: PublicSuite, tests: Mapping[str, Any], root: Path) -> Iterator[Row]:
    labels = {test: label for label in suite.victims for test in label.tests}
    for test, label in labels.items():
        found = tests.get(test)
        yield row_of(test, label, found, root)
    for test, found in tests.items():
        explanation = found.get("explanation") or {}
        if test in labels:
            continue
        if explanation.get("kind"):
            yield Row(test, WRONG, explanation["kind"], explanation["culprit"], why="has no label")
        elif found["verdict"] == "flaky" or test not in suite.always_failing:
            yield Row(test, WRONG, why=f"{found['verdict']}, and has no label")


def row_of(test: str, label: VictimLabel, found: Mapping[str, Any] | None, root: Path) -> Row:
    if found is None or found["verdict"] == "pass":
        return Row(test, NOT_SHOWN)
    explanation = found.get("explanation") or {}
    kind, culprit = explanation.get("kind") or "", explanation.get("culprit") or ""
    runs, seconds = explanation.get("runs", 0), explanation.get("duration_s", 0.0)
    if not kind:
        return Row(test, UNEXPLAINED, runs=runs, seconds=seconds)
    left = explanation.get("left", [])
    why = label.objection(kind, culprit, left) or endings(explanation, root)
    outcome = WRONG if why else RIGHT if left else NO_ITEM
    return Row(test, outcome, kind, culprit, runs, seconds, why)


def endings(explanation: Mapping[str, Any], root: Path) -> str:
    """What is wrong with the two printed commands, run in a shell; empty if nothing is."""
    expected = {"reproduce": 1, "control": 0}
    if explanation["kind"] == "brittle":
        expected = {"reproduce": 0, "control": 1}
    for name, code in expected.items():
        words = ["sh", "-c", explanation[name]]
        environ = os.environ | BARE
        ran = run_limited(words, timeout_s=COMMAND_LIMIT_S, cwd=root, environ=environ)
        if ran.exit_code != code:
            return f"{name} ended with {ran.exit_code}: {explanation[name]}"
    return ""


def table(tried: Sequence[Tried]) -> list[str]:
    lines = [
        f"| sdist | arguments | tests | {' | '.join(OUTCOMES)} | culprits | runs a test | s |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|--:|--:|",
    ]
    for each in tried:
        if each.error:
            lines.append(f"| {each.suite.sdist} | not tried: {each.error} |" + " |" * 9)
            continue
        counts = [str(each.count(name)) for name in OUTCOMES]
        rows = [row for row in each.rows if row.runs]
        kinds = collections.Counter(
            f"{row.kind}: `{row.culprit.rpartition('::')[2]}`" for row in rows if row.kind
        )
        runs = sum(row.runs for row in rows) / max(1, len(rows))
        lines.append(
            f"| {each.suite.sdist} | `{' '.join(each.suite.arguments)}` | {each.tests} | "
            f"{' | '.join(counts)} | {', '.join(f'{k} ({n})' for k, n in sorted(kinds.items()))} | "
            f"{runs:.0f} | {each.seconds:.0f} |"
        )
    return lines


def record(tried: Sequence[Tried], budget: str) -> None:
    load, _, _ = os.getloadavg()
    machine = (
        f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} CPUs, load {load:.1f}; "
        f"{', '.join(PYTEST)}; budget {budget} a suite"
    )
    title = f"\n## {datetime.now(UTC):%Y-%m-%d}: order-dependent tests of published suites"
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n".join([title, "", machine, "", *table(tried), ""]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [suite.sdist.partition("==")[0] for suite in SUITES]
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(names)}")
    parser.add_argument("--sdists", type=Path, default=Path(tempfile.gettempdir(), "public-sdists"))
    parser.add_argument("--budget", default="5m", help="the time to explain one suite's tests")
    parser.add_argument("--jobs", type=int, default=2, help="suites at a time")
    parser.add_argument("--record", action="store_true", help="append the table to RESULTS.md")
    arguments = parser.parse_args()
    unknown = set(arguments.suites) - set(names)
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    arguments.sdists.mkdir(parents=True, exist_ok=True)
    chosen = [
        suite
        for name, suite in zip(names, SUITES, strict=True)
        if name in (arguments.suites or names)
    ]
    tried = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        tries = [
            pool.submit(try_suite, each, arguments.sdists, arguments.budget) for each in chosen
        ]
        for each in tries:
            tried.append(each.result())
            for row in tried[-1].rows:
                print(f"{row.outcome:11} {row.test}: {row.kind} {row.culprit} {row.why}")
            sys.stdout.flush()
    print(*table(tried), sep="\n")
    if arguments.record:
        record(tried, arguments.budget)
    counts = collections.Counter(row.outcome for each in tried for row in each.rows)
    return int(bool(counts[WRONG]) or not counts[RIGHT] or any(each.error for each in tried))


if __name__ == "__main__":
    sys.exit(main())
