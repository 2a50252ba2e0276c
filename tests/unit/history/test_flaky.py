from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.history.database import HistoryWindow
from ci_doctor.history.evidence import EvidenceFile
from ci_doctor.history.flaky import flaky_facts
from tests.support.histories import BEGIN_MS, DAY_MS, WHOLE, F, P, history, run

GREEN = [("stable", P)] * 20


def test_a_test_that_passed_and_failed_on_one_commit_is_proven_flaky(tmp_path: Path) -> None:
    runs = [run([("x", F), ("x", P), *GREEN], at=1, commit="a")]

    with history(tmp_path / "h.sqlite", runs) as connection:
        (flaky,) = flaky_facts(connection, WHOLE).flaky

    assert (flaky.name, flaky.is_proven, flaky.mixed_commits) == ("x", True, 1)
    assert (flaky.failed, flaky.passed) == (1, 1)


def test_a_break_and_its_repair_are_no_flake(tmp_path: Path) -> None:
    results = [P, P, F, F, F, P, P]
    runs = [run([("x", each)], at=at, commit=f"c{at}") for at, each in enumerate(results)]

    with history(tmp_path / "h.sqlite", runs) as connection:
        assert flaky_facts(connection, WHOLE).flaky == ()


def test_a_test_that_changes_often_is_listed_unproven(tmp_path: Path) -> None:
    results = [P, F, P, P, F, P]
    runs = [run([("x", each)], at=at, commit=f"c{at}") for at, each in enumerate(results)]

    with history(tmp_path / "h.sqlite", runs) as connection:
        (flaky,) = flaky_facts(connection, WHOLE).flaky

    assert (flaky.is_proven, flaky.transitions) == (False, 4)


def broken_hour(commit_passes_elsewhere: bool) -> list[EvidenceFile]:
    names = [f"t{number}" for number in range(40)]
    runs = [run([(name, P) for name in names], at=at, commit=f"c{at}") for at in range(30)]
    runs.append(run([(name, F) for name in names], at=31, commit="bad", agent="gpu-7"))
    if commit_passes_elsewhere:
        runs.append(run([(name, P) for name in names], at=31, commit="bad", agent="gpu-1"))
    return runs


def test_a_broken_machine_makes_no_test_flaky(tmp_path: Path) -> None:
    runs = broken_hour(commit_passes_elsewhere=True)

    with history(tmp_path / "h.sqlite", runs) as connection:
        facts = flaky_facts(connection, WHOLE)

    assert facts.flaky == ()
    (column,) = facts.columns
    assert (column.agent, column.failed, column.is_infra) == ("gpu-7", 40, True)


def test_a_commit_that_fails_everywhere_is_not_excused(tmp_path: Path) -> None:
    runs = broken_hour(commit_passes_elsewhere=False)

    with history(tmp_path / "h.sqlite", runs) as connection:
        (column,) = flaky_facts(connection, WHOLE).columns

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
        facts = flaky_facts(connection, window)
        unknown = HistoryWindow(since_ms=0, until_ms=1, branch="nobody")
        with pytest.raises(UsageError, match="`nobody`"):
            flaky_facts(connection, unknown)

    assert [test.name for test in facts.flaky] == ["new"]


def test_a_change_that_breaks_one_step_is_not_excused_by_the_other_steps(tmp_path: Path) -> None:
    ours = [f"t{number}" for number in range(40)]
    others = [(f"lint{number}", P) for number in range(40)]
    runs = [run([(name, P) for name in ours], at=at, commit=f"c{at}") for at in range(30)]
    runs.append(run([(name, F) for name in ours], at=31, commit="bad", agent="gpu-7"))
    runs.append(run(others, at=31, commit="bad", agent="cpu-1"))

    with history(tmp_path / "h.sqlite", runs) as connection:
        (column,) = flaky_facts(connection, WHOLE).columns

    assert not column.is_infra


def test_a_broken_machine_of_another_branch_takes_no_failures_from_this_one(tmp_path: Path) -> None:
    runs = [
        *broken_hour(commit_passes_elsewhere=True),
        run([("t0", F), ("t0", P)], at=40, commit="here", branch="release"),
    ]
    window = HistoryWindow(since_ms=0, until_ms=WHOLE.until_ms, branch="release")

    with history(tmp_path / "h.sqlite", runs) as connection:
        (flaky,) = flaky_facts(connection, window).flaky

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

    with history(tmp_path / "h.sqlite", runs) as connection:
        facts = flaky_facts(connection, WHOLE)

    assert [column.is_infra for column in facts.columns] == [True, True]
    # One break and its repair.
    assert facts.flaky == ()


def test_a_test_that_fails_in_one_step_of_a_matrix_is_not_proven_flaky(tmp_path: Path) -> None:
    runs = [
        run([("x", F), *GREEN], at=1, commit="a", step="cuda-13"),
        run([("x", P), *GREEN], at=1, commit="a", step="cuda-12"),
    ]

    with history(tmp_path / "h.sqlite", runs) as connection:
        assert flaky_facts(connection, WHOLE).flaky == ()


def test_a_retry_of_one_step_that_passes_proves_a_flake_beside_the_other_steps(
    tmp_path: Path,
) -> None:
    runs = [
        run([("x", F), *GREEN], at=1, commit="a", step="cuda-13"),
        run([("x", P), *GREEN], at=2, commit="a", step="cuda-13"),
        run([("x", P), *GREEN], at=1, commit="a", step="cuda-12"),
    ]

    with history(tmp_path / "h.sqlite", runs) as connection:
        (flaky,) = flaky_facts(connection, WHOLE).flaky

    assert (flaky.is_proven, flaky.mixed_commits) == (True, 1)


def test_a_test_that_always_fails_in_one_step_does_not_change_its_result(tmp_path: Path) -> None:
    runs = []
    for at in range(4):
        runs.append(run([("test_x", F)], at=2 * at, commit=f"c{at}", step="cpu"))
        runs.append(run([("test_x", P)], at=2 * at + 1, commit=f"c{at}", step="gpu"))

    with history(tmp_path / "h.sqlite", runs) as connection:
        facts = flaky_facts(connection, WHOLE)

    assert facts.flaky == ()
