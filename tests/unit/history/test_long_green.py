# SPDX-License-Identifier: Apache-2.0
"""Whether tests have been green for long, in real SQLite files."""

from pathlib import Path

import pytest

from ci_doctor.history.long_green import DaySums, day_sums, green_clause
from tests.support.histories import BEGIN_MS, DAY_MS, WHOLE, F, I, P, history, run

FIRST = BEGIN_MS // DAY_MS


def test_the_sums_of_several_tests_are_added_and_infrastructure_is_left_out(tmp_path: Path) -> None:
    runs = [
        run([("x", P), ("y", P), ("z", F)], at=0),
        run([("x", F)], at=24 * 3),
        run([("x", I)], at=24 * 9),
    ]
    names = [("tests.test_a", "x"), ("tests.test_a", "y")]
    with history(tmp_path / "h.sqlite", runs) as connection:
        sums = day_sums(connection, names, WHOLE)
        none = day_sums(connection, [("tests.test_a", "none")], WHOLE)

    assert sums == DaySums(passed=2, failed=1, first_day=FIRST, last_day=FIRST + 3)
    assert none is None


@pytest.mark.parametrize(
    ("passed", "failed", "days", "is_green"),
    [
        (73, 0, 14, True),
        (72, 0, 14, False),
        (73, 0, 13, False),
        (99, 1, 20, False),
        (200, 1, 20, True),
    ],
)
def test_fourteen_days_and_an_upper_bound_below_five_percent_are_long_green(
    passed: int, failed: int, days: int, is_green: bool
) -> None:
    sums = DaySums(passed=passed, failed=failed, first_day=0, last_day=days)

    assert (green_clause(sums) is not None) is is_green
