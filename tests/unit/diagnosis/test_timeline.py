# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.lines.clock import LogTime, log_time
from ci_doctor.diagnosis.timeline import common_scale


def times(*lines: str) -> list[LogTime | None]:
    return [log_time(line) for line in lines]


@pytest.mark.parametrize(
    "other",
    [
        # The same moments, two seconds earlier each, in the formats of other writers.
        times("2026-11-22T14:00:06Z", "2026-11-22T14:05:06Z"),
        times("INFO 11-22 14:00:06 [a.py:1]", "INFO 11-22 14:05:06 [a.py:1]"),
        times("INFO 11-22 23:00:06 [a.py:1]", "INFO 11-22 23:05:06 [a.py:1]"),
        times("[2026-11-22 06:00:06 TP0]", "[2026-11-22 06:05:06 TP0]"),
        times("[14:00:06] x", "[14:05:06] x"),
        times("Nov 22 19:30:06 host kernel:", "Nov 22 19:35:06 host kernel:"),
    ],
)
def test_logs_of_other_formats_and_zones_are_put_on_one_scale(other: list[LogTime | None]) -> None:
    reference = times("2026-11-22T14:00:08Z x", "2026-11-22T14:05:08Z x")
    first, second = common_scale([reference, other])
    assert first[0] is not None
    assert second[0] is not None
    assert first[0] - second[0] == pytest.approx(2)


def test_a_log_without_times_has_none() -> None:
    assert common_scale([[None, None], times("2026-11-22T14:00:08Z")])[0] == [None, None]
    assert common_scale([[None]]) == [[None]]


def test_a_job_over_midnight_keeps_its_order() -> None:
    full = times("2026-11-22T23:59:58Z", "2026-11-23T00:00:03Z")
    clock = times("[00:00:01] x", "[00:00:02] x")
    first, second = common_scale([full, clock])
    assert first[0] is not None
    assert first[1] is not None
    assert second[0] is not None
    assert first[0] < second[0] < first[1]
