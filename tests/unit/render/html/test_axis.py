# SPDX-License-Identifier: Apache-2.0
"""The axis: every known time has its place on it, and nothing unknown is given one."""

import pytest

from ci_doctor.model.facts.build import BuildFacts, JobFacts
from ci_doctor.render.html.axis import (
    attempt_bar,
    build_axis,
    instant,
    known,
    percent,
    queue_time,
    span_of,
    wall_time,
)
from tests.support.build_pages import a_job, a_step
from tests.support.builds import BEGIN

START = BEGIN.timestamp()


def _facts(*jobs: JobFacts) -> BuildFacts:
    return BuildFacts(build_steps=(a_step("serving", *jobs),))


def test_the_axis_goes_from_the_first_time_in_the_queue_to_the_last_end() -> None:
    axis = build_axis(_facts(a_job(60, 100, queued_s=60), a_job(200, 400)))

    assert axis is not None
    assert axis.begin == pytest.approx(START)
    assert axis.seconds == pytest.approx(600)
    assert axis.place(START + 300) == pytest.approx(50)


@pytest.mark.parametrize(
    ("seconds", "offsets", "grid"),
    [
        (4, ["+0 s", "+1 s", "+2 s", "+3 s"], "25%"),
        (600, ["+0 min", "+2 min", "+4 min", "+6 min", "+8 min"], "20%"),
        (10 * 3600, ["+0 h", "+2 h", "+4 h", "+6 h", "+8 h"], "20%"),
        (24 * 86400, ["+0 d", "+3 d", "+6 d", "+9 d", "+12 d", "+15 d", "+18 d", "+21 d"], "12.5%"),
    ],
)  # fmt: skip
def test_ticks_stand_at_round_distances(seconds: float, offsets: list[str], grid: str) -> None:
    axis = build_axis(_facts(a_job(0, seconds)))

    assert axis is not None
    assert [tick.offset for tick in axis.ticks] == offsets
    assert axis.grid == grid


def test_a_tick_names_the_time_of_day() -> None:
    axis = build_axis(_facts(a_job(0, 600)))

    assert axis is not None
    assert [tick.clock for tick in axis.ticks[:2]] == ["09:58", "10:00"]


def test_a_build_of_no_length_still_has_an_axis() -> None:
    axis = build_axis(_facts(a_job(0, 0)))

    assert axis is not None
    assert axis.place(START) == 0
    assert axis.took == 0


def test_a_wrong_clock_takes_no_room_from_the_others() -> None:
    years = 5 * 365 * 86400
    jobs = (a_job(0, 600), a_job(-years, 60), a_job(60, 60), a_job(years, 60), a_job(60, years))
    axis = build_axis(_facts(*jobs))

    assert axis is not None
    assert axis.strays == 3
    assert axis.begin == pytest.approx(START)
    assert axis.took == pytest.approx(600)
    bars = [attempt_bar(job, None, axis, is_last=True) for job in jobs]
    assert [bar is not None for bar in bars] == [True, False, True, False, False]


def test_a_build_of_one_job_with_a_wrong_clock_has_an_axis() -> None:
    axis = build_axis(_facts(a_job(0, 90 * 86400)))

    assert axis is not None
    assert axis.strays == 0


def test_without_any_time_there_is_no_axis() -> None:
    assert build_axis(_facts(a_job(began_at=None))) is None
    assert build_axis(BuildFacts()) is None


@pytest.mark.parametrize(
    "text",
    [None, "", "soon", "2026-11-21T09:58:12", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "\x00"],
)  # fmt: skip
def test_what_is_no_time_of_a_job_is_unknown(text: str | None) -> None:
    assert instant(text) is None


def test_a_job_that_ends_before_it_begins_by_another_clock_has_no_length() -> None:
    job = a_job(100, -40)

    assert wall_time(job) == 0
    span = span_of(job)
    assert span is not None
    assert span.end == span.begin


def test_a_job_without_an_end_has_an_unknown_length() -> None:
    assert wall_time(a_job(ended_at=None)) is None
    assert span_of(a_job(ended_at=None)) is not None


@pytest.mark.parametrize("queued", [None, -1.0, float("inf"), float("nan"), 1e300])
def test_a_time_that_no_job_waits_is_unknown(queued: float | None) -> None:
    assert queue_time(a_job(queued_s=queued)) is None


@pytest.mark.parametrize("seconds", [None, -1.0, float("inf"), float("nan"), 1e300])
def test_what_is_no_length_of_time_is_unknown(seconds: float | None) -> None:
    assert known(seconds) is None


def test_a_place_has_no_more_digits_than_a_screen_can_show() -> None:
    assert [percent(share) for share in (0, 12.5, 33.333333, 100)] == ["0%", "12.5%", "33.33%", "100%"]  # fmt: skip
