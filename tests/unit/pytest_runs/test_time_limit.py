# SPDX-License-Identifier: Apache-2.0
"""When a test runs for too long, and when to look again."""

from ci_doctor.pytest_runs.records import RunRecord, TestRecord, TestStartRecord
from ci_doctor.pytest_runs.time_limit import look_at


def start(name: str, at: float, pid: int = 7) -> TestStartRecord:
    return TestStartRecord(p=pid, id=name, n=1, t=at)


def test_a_test_is_overdue_at_its_limit_and_the_next_look_is_at_the_next_limit() -> None:
    records: list[RunRecord] = [start("a", 1.0), start("b", 2.5, pid=8)]

    look = look_at(records, 2.0, 3.0)

    assert [test.test for test in look.overdue] == ["a"]
    assert look.next_look == 4.5


def test_a_test_that_has_ended_is_never_overdue() -> None:
    ended = TestRecord(p=7, id="a", n=1, t=2.0, at=None, phases=())

    look = look_at([start("a", 1.0), ended], 2.0, 9.0)

    assert look.overdue == ()
    # Whatever begins after this look is due later than the next one.
    assert look.next_look == 11.0
