# SPDX-License-Identifier: Apache-2.0
"""Runs each miniature as it was and by ci-doctor, and writes times and output into docs/origins.md.

    python examples/origins/measure.py            prints the table
    python examples/origins/measure.py --record   also writes the page's table and outputs

Each time is the median of the wall clock of several runs, the output that of the last one. Nothing is written if a run
ends with another status than the page says.
"""

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "origins.md"
RUNS = 3
MOST_LINES = 14  # of a paragraph of a report
VERDICT = re.compile(r"[✓✗~≠!?∅] [A-Z]{4}")
FINDING = re.compile(r"[✗!] ")
OWN_FOLDER = re.compile(r"/tmp/tmp\.\w{10}")  # of mktemp(1)


class Case(NamedTuple):
    """One situation: its folder, the argument of both scripts, and the status that each must end with."""

    folder: str
    name: str
    situation: str
    original: int
    today: int
    test: str  # of tests/integration/test_origins.py
    argument: str | None = None  # of original.sh, if not the name
    not_run: str | None = None  # why no test runs with-ci-doctor.sh


CASES = (
    Case(
        "retried-correctness",
        "intermittent",
        "a bug in two starts of three",
        original=0,
        today=1,
        test="test_an_intermittent_bug_passes_by_retries_and_not_by_ci_doctor",
    ),
    Case(
        "retried-correctness",
        "renamed",
        "no request is answered",
        original=0,
        today=86,
        test="test_no_answer_at_all_passes_as_it_was_and_is_void_today",
    ),
    Case(
        "retried-correctness",
        "two-plans",
        "nothing is wrong with the change",
        original=1,
        today=0,
        test="test_good_code_fails_as_it_was",
        not_run="tests/integration/test_examples.py runs the same story with more requests",
    ),
    Case(
        "restart-sleep",
        "helper",
        "a helper keeps the port",
        original=0,
        today=1,
        test="test_a_process_that_keeps_the_port_passes_as_it_was_and_is_named_today",
    ),
    Case(
        "cache-in-every-pod",
        "inert",
        "the library looks elsewhere",
        original=0,
        today=1,
        test="test_an_unused_cache_passes_as_it_was_and_is_inert_today",
        argument="2",
    ),
    Case(
        "import-race",
        "race",
        "a cold disk, and one retry",
        original=0,
        today=1,
        test="test_an_import_race_is_lost_and_retried_as_it_was_and_named_today",
        argument="3",
    ),
    Case(
        "blind-wait",
        "broken",
        "the engine dies at once",
        original=1,
        today=1,
        test="test_an_engine_that_is_dead_is_waited_for_as_it_was_and_named_today",
    ),
)


class Measured(NamedTuple):
    """What came of a script: its status, the median of its times, the output of its last run."""

    status: int
    seconds: float
    output: str


def measure(script: Path, argument: str, runs: int) -> Measured:
    """Run `script` so many times, each time in a directory of its own."""
    seconds = []
    status, output = 0, ""
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            ended = subprocess.run(
                ["bash", str(script), argument],
                cwd=folder,
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            seconds.append(time.monotonic() - began)
        status, output = ended.returncode, shown(ended.stdout, folder)
    return Measured(status, statistics.median(seconds), output)


def environment(folder: str) -> dict[str, str]:
    """Our environment, with the Python that runs us first on PATH, and without a CI's variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BUILDKITE", "CI_DOCTOR_", "GITHUB_"))
    }
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    return {**kept, "PATH": path, "NO_COLOR": "1", "TMPDIR": folder}


def shown(output: str, folder: str) -> str:
    """The output without the names of this machine's directories."""
    root = os.path.relpath(ROOT, folder)
    for name, word in ((folder, "/tmp"), (f"{ROOT}/", ""), (f"{root}/", ""), (sys.prefix, ".venv")):
        output = output.replace(name, word)
    return OWN_FOLDER.sub("/tmp/tmp.XXXXXXXXXX", output).strip("\n")


def of_report(output: str) -> str:
    """The verdict of a report and its findings; other paragraphs are left out, and long ones are cut."""
    return "\n\n".join(cut(each) for each in important(output.split("\n\n")))


def important(paragraphs: list[str]) -> Iterator[str]:
    """The paragraph from the verdict's line on, and those of the findings behind it."""
    has_verdict = False
    for paragraph in paragraphs:
        lines = paragraph.split("\n")
        if not has_verdict:
            for number, line in enumerate(lines):
                if VERDICT.match(line):
                    has_verdict = True
                    yield "\n".join(lines[number:])
                    break
        elif FINDING.match(paragraph):
            yield paragraph


def cut(paragraph: str) -> str:
    """At most MOST_LINES lines, and the remedy."""
    lines = paragraph.split("\n")
    if len(lines) <= MOST_LINES:
        return paragraph
    remedy = [number for number, line in enumerate(lines) if line.startswith("  try:")]
    last = max(remedy, default=len(lines))
    return "\n".join([*lines[: min(MOST_LINES, last)], "  …", *lines[max(MOST_LINES, last) :]])


def with_block(page: str, name: str, text: str) -> str:
    """`page` with `text` between the marks of `name`. Raises ValueError if it has no such marks."""
    start, end = f"<!-- measured: {name} -->\n", "<!-- end -->"
    before, mark, rest = page.partition(start)
    _, end_mark, after = rest.partition(end)
    if not mark or not end_mark:
        raise ValueError(f"{PAGE} has no place for {name}")
    return f"{before}{start}{text}\n{end}{after}"


def table(rows: list[tuple[Case, Measured, Measured]]) -> str:
    """What the page shows of all cases, with the machine and the date."""
    lines = [
        "| problem | what is planted | as it was | time | with ci-doctor | time |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for case, before, today in rows:
        link = f"[{case.folder}](#{case.folder})"
        cells = [link, case.situation, *result(before), *result(today)]
        lines.append(f"| {' | '.join(cells)} |")
    python, system = platform.python_version(), f"{platform.system()} {platform.machine()}"
    machine = f"Python {python}, {system}, {os.cpu_count()} CPUs"
    lines += [
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {machine}, shared with other work; medians of {RUNS} runs.",
    ]
    return "\n".join(lines)


def result(measured: Measured) -> tuple[str, str]:
    """The status and the time."""
    # A no-break space: a figure keeps its unit in a narrow column.
    return f"exit {measured.status}", f"{measured.seconds:.1f}\N{NO-BREAK SPACE}s"


def console(command: str, measured: Measured, text: str, marker: str) -> str:
    """A block of the page: who runs it, what was typed and printed, and how it ended."""
    ending = f"exit code {measured.status}, after {measured.seconds:.1f} s"
    return f"<!-- {marker} -->\n```console\n$ {command}\n{text}\n```\n\n{ending}"


def markers(case: Case) -> tuple[str, str]:
    """What the blocks of a case say of their tests: as it was, and with ci-doctor (CONTRIBUTING.md)."""
    by_test = f"run by tests/integration/test_origins.py::{case.test}"
    return by_test, f"not run: {case.not_run}" if case.not_run else by_test


def main() -> int:
    """Measure all cases; 1 if one of them ended otherwise than the page says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="write docs/origins.md")
    arguments = parser.parse_args()
    page = PAGE.read_text()
    rows = []
    for case in CASES:
        scripts = HERE / case.folder
        argument = case.argument or case.name
        before = measure(scripts / "original.sh", argument, RUNS)
        today = measure(scripts / "with-ci-doctor.sh", case.name, RUNS)
        if (before.status, today.status) != (case.original, case.today):
            print(f"{case.folder} {case.name}: {before}\n{today}")
            return 1
        rows.append((case, before, today))
        mark = f"{case.folder} {case.name}"
        of_original, of_today = markers(case)
        block = console(f"bash original.sh {argument}", before, before.output, of_original)
        page = with_block(page, f"{mark} original", block)
        words = f"bash with-ci-doctor.sh {case.name}"
        block = console(words, today, of_report(today.output), of_today)
        page = with_block(page, f"{mark} today", block)
    text = table(rows)
    print(text)
    if arguments.record:
        PAGE.write_text(with_block(page, "table", text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
