# SPDX-License-Identifier: Apache-2.0
"""The SQL that the page of the history shows in place of commands for sums by day and by cause."""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from ci_doctor.errors import UsageError
from ci_doctor.history.address import DatabaseAddress
from ci_doctor.history.database import HistoryWindow, Question, writing
from ci_doctor.history.evidence import AttemptOutcome, EvidenceFile
from ci_doctor.history.flaky import flaky_facts, strip_facts
from ci_doctor.history.outcomes import report_outcome
from ci_doctor.history.upkeep import open_database
from ci_doctor.model.facts.history import FlakyFacts, HistoryReportFacts
from tests.support.histories import BEGIN_MS, DAY_MS, WHOLE, F, I, P, S, history, run

GREEN = [("stable", P)] * 20


def found(folder: Path, runs: Sequence[EvidenceFile], window: HistoryWindow = WHOLE) -> FlakyFacts:
    """What is flaky in `runs`."""
    with history(folder / "h.sqlite", runs) as connection:
        return flaky_facts(Question(connection, window))


def strips(folder: Path, runs: Sequence[EvidenceFile]) -> HistoryReportFacts:
    """The page's facts of `runs`."""
    with history(folder / "h.sqlite", runs) as connection:
        return strip_facts(Question(connection, WHOLE))


def in_order(*results: AttemptOutcome) -> list[EvidenceFile]:
    """One test on one commit after the other."""
    return [run([("x", each)], at=at, commit=f"c{at}") for at, each in enumerate(results)]


def test_a_test_that_changes_often_is_listed_unproven_and_a_repair_is_none(tmp_path: Path) -> None:
    (flaky,) = found(tmp_path, in_order(P, F, P, P, F, P)).flaky

    assert (flaky.is_proven, flaky.transitions) == (False, 4)
    (tmp_path / "repair").mkdir()
    assert found(tmp_path / "repair", in_order(P, P, F, F, F, P, P)).flaky == ()


@pytest.mark.parametrize("commits", [1, 4])
def test_a_test_that_fails_in_one_step_of_a_matrix_is_no_flake(
    tmp_path: Path, commits: int
) -> None:
    runs = [
        run([("x", outcome), *GREEN], at=at, commit=f"c{at}", step=step)
        for at in range(commits)
        for step, outcome in (("cuda-13", F), ("cuda-12", P))
    ]

    assert found(tmp_path, runs).flaky == ()


def broken_hour(commit_passes_elsewhere: bool) -> list[EvidenceFile]:
    names = [f"t{number}" for number in range(40)]
    runs = [run([(name, P) for name in names], at=at, commit=f"c{at}") for at in range(30)]
    runs.append(run([(name, F) for name in names], at=31, commit="bad", agent="gpu-7"))
    if commit_passes_elsewhere:
        runs.append(run([(name, P) for name in names], at=31, commit="bad", agent="gpu-1"))
    return runs


def test_a_broken_machine_makes_no_test_flaky(tmp_path: Path) -> None:
    runs = broken_hour(commit_passes_elsewhere=True)

    facts = found(tmp_path, runs)

    assert facts.flaky == ()
    (column,) = facts.columns
    assert (column.agent, column.failed, column.is_infra) == ("gpu-7", 40, True)
    # A commit that fails everywhere is not excused.
    (tmp_path / "everywhere").mkdir()
    (column,) = found(tmp_path / "everywhere", broken_hour(commit_passes_elsewhere=False)).columns
    assert not column.is_infra


def test_a_window_and_a_branch_leave_the_rest_out(tmp_path: Path) -> None:
    runs = [
        run([("old", F), ("old", P)], at=1, commit="a"),
        run([("new", F), ("new", P)], at=24 * 9, commit="b"),
        run([("other", F), ("other", P)], at=24 * 9, commit="c", branch="pr"),
    ]
    window = HistoryWindow(
        since_ms=BEGIN_MS + 5 * DAY_MS, until_ms=BEGIN_MS + 20 * DAY_MS, branch="main"
    )

    with history(tmp_path / "h.sqlite", runs) as connection:
        facts = flaky_facts(Question(connection, window))
        unknown = HistoryWindow(since_ms=0, until_ms=1, branch="nobody")
        with pytest.raises(UsageError, match="`nobody`"):
            flaky_facts(Question(connection, unknown))

    assert [test.name for test in facts.flaky] == ["new"]


def test_a_change_that_breaks_one_step_is_not_excused_by_the_other_steps(tmp_path: Path) -> None:
    ours = [f"t{number}" for number in range(40)]
    others = [(f"lint{number}", P) for number in range(40)]
    runs = [run([(name, P) for name in ours], at=at, commit=f"c{at}") for at in range(30)]
    runs.append(run([(name, F) for name in ours], at=31, commit="bad", agent="gpu-7"))
    runs.append(run(others, at=31, commit="bad", agent="cpu-1"))

    (column,) = found(tmp_path, runs).columns

    assert not column.is_infra


def test_a_broken_machine_of_another_branch_takes_no_failures_from_this_one(tmp_path: Path) -> None:
    runs = [
        *broken_hour(commit_passes_elsewhere=True),
        run([("t0", F), ("t0", P)], at=40, commit="here", branch="release"),
    ]
    window = HistoryWindow(since_ms=0, until_ms=WHOLE.until_ms, branch="release")

    (flaky,) = found(tmp_path, runs, window).flaky

    assert (flaky.name, flaky.failed, flaky.passed, flaky.infra) == ("t0", 1, 1, 0)


def test_the_failures_of_broken_machines_are_no_changes_of_a_test(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(40)]
    runs = []
    for at in range(40):
        is_broken = at in (10, 20)
        if is_broken:
            runs.append(run([(name, F) for name in names], at=at, commit=f"c{at}", agent="gpu-7"))
        results = [(name, F if name == "t0" and at == 30 else P) for name in names]
        runs.append(run(results, at=at, commit=f"c{at}"))

    facts = found(tmp_path, runs)

    assert [column.is_infra for column in facts.columns] == [True, True]
    # One break and its repair.
    assert facts.flaky == ()


def test_a_retry_of_one_step_that_passes_proves_a_flake_beside_the_other_steps(
    tmp_path: Path,
) -> None:
    runs = [
        run([("x", F), *GREEN], at=1, commit="a", step="cuda-13"),
        run([("x", P), *GREEN], at=2, commit="a", step="cuda-13"),
        run([("x", P), *GREEN], at=1, commit="a", step="cuda-12"),
    ]

    (flaky,) = found(tmp_path, runs).flaky

    assert (flaky.is_proven, flaky.mixed_commits) == (True, 1)


def test_cells_tell_what_ran_in_their_hour(tmp_path: Path) -> None:
    runs = [
        run([("x", P), ("y", P), ("stable", P)], at=0),
        run([("x", F), ("y", I)], at=1),
        run([("x", F), ("x", P), ("x", P), ("x", P), ("y", S)], at=3),
    ]

    facts = strips(tmp_path, runs)

    assert {row.name: row.cells for row in facts.history_strip} == {"x": "09.3", "y": "0i.."}
    assert len(facts.begins) == 4
    assert facts.column_s == 3600
    assert facts.tests == 3


def test_a_long_time_has_wider_columns(tmp_path: Path) -> None:
    runs = [run([("x", P)], at=0), run([("x", F)], at=24 * 60)]

    facts = strips(tmp_path, runs)

    assert len(facts.begins) <= 100
    (row,) = facts.history_strip
    assert (row.cells[0], row.cells[-1]) == ("0", "9")


def test_a_page_of_the_likeliest_tests_says_how_many_failed(tmp_path: Path) -> None:
    outcomes = [(f"t{number}", F) for number in range(201)]

    summary = report_outcome(strips(tmp_path, [run(outcomes, at=1)]), tmp_path).summary
    assert "201 of 201 tests failed" in summary
    assert summary.endswith("; the page shows the 200 likeliest flaky ones")


def test_a_test_that_never_passed_stands_below_those_that_did(tmp_path: Path) -> None:
    runs = [run([("broken", F), ("flaky", P)], at=0), run([("broken", F), ("flaky", F)], at=1)]

    facts = strips(tmp_path, runs)

    assert [row.name for row in facts.history_strip] == ["flaky", "broken"]


ROOT = Path(__file__).parents[3]
ROWS = """
INSERT INTO cause (id, fingerprint, title) VALUES (1, 'f', 'out of memory');
INSERT INTO job (id, key, cause_id, started_ms, duration_ms, passed, failed, infra)
    VALUES (1, 'a', 1, 0, 7200000, 0, 2, 0);
INSERT INTO test_day (branch_id, day, test_id, passed, failed, infra, duration_ms)
    VALUES (-1, 20000, 1, 3, 1, 0, 5), (7, 20000, 1, 3, 1, 0, 5), (-1, 20000, 2, 4, 0, 1, 5);
"""


def test_the_questions_of_the_page_are_answered(tmp_path: Path) -> None:
    file = tmp_path / "h.sqlite"
    engine = open_database(DatabaseAddress(file=file), busy_s=10)
    with writing(engine) as connection:
        for statement in ROWS.split(";"):
            connection.execute(sa.text(statement)) if statement.strip() else None
    engine.dispose()
    page = (ROOT / "docs/history.md").read_text()

    by_day, by_cause = re.findall(r'sqlite3 ci-doctor-history\.sqlite "(SELECT[^"]*)"', page)

    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute(by_day).fetchall() == [("2024-10-04", 7, 1, 1)]
        assert connection.execute(by_cause).fetchall() == [("out of memory", 1, 2.0)]
