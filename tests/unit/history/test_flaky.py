from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.history.flaky import flaky_facts
from ci_doctor.history.window import HistoryWindow
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


def broken_hour(commit_passes_elsewhere: bool) -> list[object]:
    names = [f"t{number}" for number in range(40)]
    runs = [run([(name, P) for name in names], at=at, commit=f"c{at}") for at in range(30)]
    runs.append(run([(name, F) for name in names], at=31, commit="bad", agent="gpu-7"))
    if commit_passes_elsewhere:
        runs.append(run([(name, P) for name in names], at=31, commit="bad", agent="gpu-1"))
    return list(runs)


def test_a_broken_machine_makes_no_test_flaky(tmp_path: Path) -> None:
    runs = broken_hour(commit_passes_elsewhere=True)

    with history(tmp_path / "h.sqlite", runs) as connection:  # type: ignore[arg-type]
        facts = flaky_facts(connection, WHOLE)

    assert facts.flaky == ()
    (column,) = facts.columns
    assert (column.agent, column.failed, column.is_infra) == ("gpu-7", 40, True)


def test_a_commit_that_fails_everywhere_is_not_excused(tmp_path: Path) -> None:
    runs = broken_hour(commit_passes_elsewhere=False)

    with history(tmp_path / "h.sqlite", runs) as connection:  # type: ignore[arg-type]
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
