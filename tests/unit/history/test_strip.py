from pathlib import Path

from ci_doctor.history.flaky import strip_facts
from ci_doctor.history.outcomes import report_outcome
from tests.support.histories import WHOLE, F, I, P, S, history, run


def test_cells_tell_what_ran_in_their_hour(tmp_path: Path) -> None:
    runs = [
        run([("x", P), ("y", P), ("stable", P)], at=0),
        run([("x", F), ("y", I)], at=1),
        run([("x", F), ("x", P), ("x", P), ("x", P), ("y", S)], at=3),
    ]

    with history(tmp_path / "h.sqlite", runs) as connection:
        facts = strip_facts(connection, WHOLE)

    assert {row.name: row.cells for row in facts.history_strip} == {"x": "09.3", "y": "0i.."}
    assert len(facts.begins) == 4
    assert facts.column_s == 3600
    assert facts.tests == 3


def test_a_long_time_has_wider_columns(tmp_path: Path) -> None:
    runs = [run([("x", P)], at=0), run([("x", F)], at=24 * 60)]

    with history(tmp_path / "h.sqlite", runs) as connection:
        facts = strip_facts(connection, WHOLE)

    assert len(facts.begins) <= 100
    (row,) = facts.history_strip
    assert (row.cells[0], row.cells[-1]) == ("0", "9")


def test_a_page_of_the_likeliest_tests_says_how_many_failed(tmp_path: Path) -> None:
    outcomes = [(f"t{number}", F) for number in range(201)]

    with history(tmp_path / "h.sqlite", [run(outcomes, at=1)]) as connection:
        facts = strip_facts(connection, WHOLE)

    summary = report_outcome(facts, tmp_path).summary
    assert "201 of 201 tests failed" in summary
    assert summary.endswith("; the page shows the 200 likeliest flaky ones")


def test_a_test_that_never_passed_stands_below_those_that_did(tmp_path: Path) -> None:
    runs = [run([("broken", F), ("flaky", P)], at=0), run([("broken", F), ("flaky", F)], at=1)]

    with history(tmp_path / "h.sqlite", runs) as connection:
        facts = strip_facts(connection, WHOLE)

    assert [row.name for row in facts.history_strip] == ["flaky", "broken"]
