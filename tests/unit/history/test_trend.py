from datetime import date
from pathlib import Path

from ci_doctor.history.trend import trend_facts
from tests.support.histories import BEGIN_MS, DAY_MS, WHOLE, F, I, P, S, history, run

RUNS = [
    run([("x", P), ("y", F), ("z", S)], at=1),
    run([("x", P), ("y", P), ("z", I)], at=20),
    run([("x", F)], at=24 * 8),
]


def test_days_hold_what_ran_on_them(tmp_path: Path) -> None:
    with history(tmp_path / "h.sqlite", RUNS) as connection:
        first, second = trend_facts(connection, WHOLE, days=1).periods

    assert (first.passed, first.failed, first.infra) == (3, 1, 1)
    assert (first.tests, first.failing_tests) == (3, 1)
    assert first.duration_s == 2.5
    assert (second.passed, second.failed) == (0, 1)


def test_weeks_begin_on_monday(tmp_path: Path) -> None:
    with history(tmp_path / "h.sqlite", RUNS) as connection:
        weeks = trend_facts(connection, WHOLE, days=7).periods

    begins = [date.fromisoformat(week.begins) for week in weeks]
    first_day = date.fromordinal(date(1970, 1, 1).toordinal() + BEGIN_MS // DAY_MS)
    assert [begin.weekday() for begin in begins] == [0, 0]
    assert 0 <= (first_day - begins[0]).days < 7
    assert sum(week.passed + week.failed for week in weeks) == 5
