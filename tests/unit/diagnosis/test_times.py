# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime

import pytest

from ci_doctor.diagnosis.rank import LogTime, common_scale, log_time

AT = datetime(2026, 11, 22, 14, 4, 8, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-22T14:04:08Z ready",
        "2026-11-22T14:04:08.0000000Z ready",
        "[2026-11-22 15:04:08 +01:00] ready",
        "[task 2026-11-22T14:04:08.000Z] ready",
        '127.0.0.1 - - [22/Nov/2026:15:04:08 +0100] "GET / HTTP/1.1" 200',
        "\x1b_bk;t=1795356248000\x07ready",
    ],
)
def test_a_time_with_its_zone_is_a_time_in_utc(line: str) -> None:
    time = log_time(line)
    assert time is not None
    assert (time.seconds, time.has_zone, time.has_year) == (AT, True, True)


@pytest.mark.parametrize(
    "line",
    ["[2026-11-22 14:04:08 TP0] ready", "2026/11/22 14:04:08 INFO ready", "2026-11-22 14:04:08,5"],
)
def test_a_time_without_a_zone_says_so(line: str) -> None:
    time = log_time(line)
    assert time is not None
    assert (int(time.seconds), time.has_zone) == (int(AT), False)


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore_DP0 pid=7) INFO 11-22 14:04:08 [core.py:1] ready",
        "I1122 14:04:08.000000 7 server.cc:1] ready",
        "[rank0]:[E1122 14:04:08.000000 ProcessGroupNCCL.cpp:1] ready",
        "Nov 22 14:04:08 host kernel: ready",
    ],
)
def test_a_time_without_a_year_keeps_its_day(line: str) -> None:
    time = log_time(line)
    assert time is not None
    assert not time.has_year
    day = datetime.fromtimestamp(time.seconds, UTC)
    assert (day.month, day.day, day.hour, day.minute) == (11, 22, 14, 4)


def test_a_clock_alone_has_no_day() -> None:
    time = log_time("[14:04:08] ready")
    assert time is not None
    assert (time.seconds, time.has_date) == (14 * 3600 + 4 * 60 + 8, False)


@pytest.mark.parametrize(
    "line",
    ["", "took 00:01:02 in all", "x" * 200 + " 2026-11-22T14:04:08Z", "02-31 14:04:08 no such day"],
)
def test_what_is_no_stamp_is_no_time(line: str) -> None:
    assert log_time(line) is None


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
