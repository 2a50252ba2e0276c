# SPDX-License-Identifier: Apache-2.0
"""Which tests run for too long, by what the recorder wrote so far. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.pytest_runs.records import FinishRecord, RunRecord, TestRecord, TestStartRecord


class RunningTest(Struct, frozen=True, kw_only=True):
    """A test that has begun at `since`, seconds of the monotonic clock, in the process `pid`."""

    test: str
    pid: int
    since: float


class TimeLimitLook(Struct, frozen=True, kw_only=True):
    """What a look shows: tests that are overdue, and when to look again (monotonic seconds)."""

    overdue: tuple[RunningTest, ...]
    next_look: float


def look_at(records: Sequence[RunRecord], limit_s: float, now: float) -> TimeLimitLook:
    """Which tests have run for `limit_s` seconds at `now`.

    A test that begins after `now` is overdue `limit_s` later at the earliest, so that one look at each
    `next_look` misses none.
    """
    overdue = []
    next_look = now + limit_s
    for test in running_tests(records):
        due = test.since + limit_s
        if due <= now:
            overdue.append(test)
        else:
            next_look = min(next_look, due)
    return TimeLimitLook(overdue=tuple(overdue), next_look=next_look)


def running_tests(records: Sequence[RunRecord]) -> tuple[RunningTest, ...]:
    """The tests that have begun and not ended, at most one a process: its last."""
    running: dict[int, TestStartRecord] = {}
    for record in records:
        if isinstance(record, TestStartRecord):
            running[record.p] = record
        elif isinstance(record, TestRecord | FinishRecord):
            running.pop(record.p, None)
    return tuple(RunningTest(test=each.id, pid=each.p, since=each.t) for each in running.values())
