# SPDX-License-Identifier: Apache-2.0
"""What it costs to write attempts to a history, beside plain SQLAlchemy in the same run.

    python benchmarks/history.py            attempts a second into SQLite, and into PostgreSQL if it is installed
    python benchmarks/history.py --record   also appends them to benchmarks/RESULTS.md

`ours` reads JUnit files and keeps the sums. `plain` inserts rows that are in memory already, by executemany into the
same table without any sums. Both in alternating rounds, by wall clock and by CPU time of this process. The questions
are asked of a history of `--attempts` attempts.
"""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.results import load, options, record
from ci_doctor.history.address import database_address
from ci_doctor.history.database import (
    ATTEMPT,
    Question,
    last_days,
    reading,
    writing,
)
from ci_doctor.history.evidence import AttemptEvidence, AttemptOutcome, EvidenceFile, JobEvidence
from ci_doctor.history.flaky import flaky_facts, seen_phrase, strip_facts
from ci_doctor.history.ingest import FilesToRead, ingest, named_files
from ci_doctor.history.one_test import (
    NamedTest,
    attempts_of,
    began_facts,
    named_test,
    one_test_facts,
)
from ci_doctor.history.upkeep import open_database, upgrade
from ci_doctor.history.writing import EvidenceWriter
from ci_doctor.model.cause import Cause
from ci_doctor.model.facts.history import HistoryAttemptFacts
from ci_doctor.system.secrets.redaction import Redactor
from tests.support.postgres import PROGRAMS, postgres

ROUNDS = 5
FILES = 20
TESTS = 1_000
DAY_MS = 86_400_000


class Cost(NamedTuple):
    """Seconds of one round."""

    wall: float
    cpu: float


def cost_of(work: Callable[[], object]) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def junit_folder(folder: Path, seed: int) -> None:
    """Files of pytest's form, of which one test in a hundred fails."""
    chance = random.Random(seed)
    for number in range(FILES):
        at = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(minutes=FILES * seed + number)
        cases = []
        for test in range(TESTS):
            failure = (
                '<failure message="assert 3 == 4">text</failure>' if chance.random() < 0.01 else ""
            )
            cases.append(
                f'<testcase classname="tests.unit.test_{test // 20}.TestSome" name="test_it[{test}]"'
                f' time="0.012">{failure}</testcase>'
            )
        (folder / f"{number}.xml").write_text(
            f'<testsuites><testsuite name="pytest" timestamp="{at.isoformat()}">{"".join(cases)}'
            "</testsuite></testsuites>"
        )


def plain_rows(seed: int) -> list[dict[str, int | None]]:
    return [
        {
            "test_id": test,
            "started_ms": 1_800_000_000_000 + seed * FILES + number,
            "source_id": 10_000_000 + seed * FILES + number,
            "number": 1,
            "job_id": number,
            "outcome": int(test % 100 == 0),
            "duration_ms": 12,
            "cause_id": None,
        }
        for number in range(FILES)
        for test in range(TESTS)
    ]


def rounds(database: str) -> dict[str, list[Cost]]:
    address = database_address(database)
    upgrade(address, busy_s=60)
    engine = open_database(address, busy_s=60)
    costs: dict[str, list[Cost]] = {"ours": [], "plain": []}

    def plain(rows: list[dict[str, int | None]]) -> None:
        with writing(engine) as connection:
            connection.execute(sa.insert(ATTEMPT), rows)

    for seed in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            junit_folder(Path(folder), seed)
            costs["ours"].append(
                cost_of(
                    partial(
                        ingest,
                        engine,
                        FilesToRead(files=named_files([folder])),
                        JobEvidence(commit="c"),
                        Redactor([]).text,
                    )
                )
            )
        rows = plain_rows(seed)
        costs["plain"].append(cost_of(partial(plain, rows)))
    engine.dispose()
    return costs


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="h", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        addresses = {"SQLite": f"{folder}/h.sqlite"}
        if PROGRAMS is None:
            yield addresses
            return
        with postgres(Path(folder) / "s") as url:
            yield {**addresses, "PostgreSQL": url}


def large_history(file: Path, attempts: int) -> None:
    """A history of ninety days: 2,000 tests, a job in three on `main`, two jobs a commit in two steps, eight agents."""
    engine = open_database(database_address(str(file)), busy_s=60)
    writer = EvidenceWriter(engine)
    chance = random.Random(5)
    jobs = attempts // 2_000
    begin = round(time.time() * 1000) - 90 * DAY_MS
    for first in range(0, jobs, 10):
        numbers = range(first, min(first + 10, jobs))
        writer.write(
            [large_job(each, begin + each * 90 * DAY_MS // jobs, chance) for each in numbers], 0
        )
    engine.dispose()


def large_job(number: int, at: int, chance: random.Random) -> EvidenceFile:
    broken = chance.random() < 0.005
    cause = Cause(fingerprint="f", title="assert 3 == 4")
    attempts = []
    for test in range(2_000):
        failed = (broken and chance.random() < 0.5) or (test % 40 == 0 and chance.random() < 0.03)
        attempts.append(
            AttemptEvidence(
                suite=f"tests.unit.test_{test // 20}.TestSome",
                name=f"test_it[{test}]",
                outcome=AttemptOutcome.FAILED if failed else AttemptOutcome.PASSED,
                started_ms=at,
                duration_ms=50,
                cause=cause if failed else None,
            )
        )
    job = JobEvidence(
        key=f"job-{number}",
        branch="main" if number % 3 == 0 else f"change-{number // 4}",
        pipeline="serving",
        build=number // 2,
        step=("unit (cuda)", "unit (cpu)")[number % 2],
        commit=f"{number // 2:040x}",
        agent=f"gpu-{number % 8}",
        started_ms=at,
        duration_ms=600_000,
    )
    return EvidenceFile(
        sha256=f"{number:064x}", place=str(number), form="junit", job=job, attempts=tuple(attempts)
    )


def late_file() -> EvidenceFile:
    """A file that says the label of a job of which 2,000 attempts are there already."""
    job = JobEvidence(key="job-0", step="unit (cuda) (late)", started_ms=0)
    return EvidenceFile(sha256="f" * 64, place="late", form="junit", job=job, attempts=())


def questions(asked: Question) -> dict[str, Callable[[], object]]:
    """What each command asks of ninety days."""

    def kept() -> tuple[NamedTest, list[HistoryAttemptFacts]]:
        test = named_test(asked.connection, "test_it[40]")
        return test, attempts_of(asked, test.number)

    return {
        "`flaky`, `quarantine suggest`": lambda: flaky_facts(asked),
        "`report`": lambda: strip_facts(asked),
        "`test`": lambda: one_test_facts(*kept()),
        "`began`": lambda: began_facts(*kept()),
        "`diagnose` (a cause)": lambda: seen_phrase(asked.connection, "f"),
    }


def question_lines(attempts: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "h.sqlite"
        large_history(file, attempts)
        size = file.stat().st_size
        window = last_days(90, round(time.time() * 1000))
        engine = open_database(database_address(str(file)), busy_s=60)
        lines = []
        with reading(engine) as connection:
            for name, ask in questions(Question(connection, window)).items():
                cost = cost_of(ask)
                lines.append(f"| {name} | {cost.wall:.2f} | {cost.cpu:.2f} |")
        cost = cost_of(lambda: EvidenceWriter(engine).write([late_file()], 0))
        lines.append(
            f"| a label that comes later for 2,000 attempts | {cost.wall:.2f} | {cost.cpu:.2f} |"
        )
        engine.dispose()
    title = (
        f"Questions to a SQLite history of {attempts:,} attempts ({size / 1e6:.0f} MB), seconds:"
    )
    return [title, "", "| question | wall | CPU |", "|---|--:|--:|", *lines]


def rate_lines() -> list[str]:
    lines = ["| database | writer | attempts/s, wall | attempts/s of CPU |", "|---|---|--:|--:|"]
    with databases() as addresses:
        for name, address in addresses.items():
            for writer, costs in rounds(address).items():
                wall = FILES * TESTS / statistics.median(cost.wall for cost in costs)
                cpu = FILES * TESTS / statistics.median(cost.cpu for cost in costs)
                lines.append(f"| {name} | {writer} | {wall:,.0f} | {cpu:,.0f} |")
    return lines


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--attempts", type=int, default=5_000_000)
    given = parser.parse_args()
    before = load()
    lines = [*rate_lines(), "", *question_lines(given.attempts)]
    print(*lines, sep="\n")
    if given.record:
        about = (
            f"{before} before the first round. `ours` reads JUnit and keeps sums; `plain` is SQLAlchemy's "
            "executemany of rows in memory. PostgreSQL's own CPU is in the wall clock alone."
        )
        title = f"the history of attempts, {ROUNDS} rounds of {FILES * TESTS:,} attempts"
        record(title, lines, about)


if __name__ == "__main__":
    main()
