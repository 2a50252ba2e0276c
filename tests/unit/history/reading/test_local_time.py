# SPDX-License-Identifier: Apache-2.0
"""Times without an offset that cannot be UTC."""

import pytest

from ci_doctor.history.placed_evidence import shift_to_utc

HOUR = 3_600_000
MINUTE = 60_000
START = 1_793_700_000_000  # in UTC
END = START + 20 * MINUTE


@pytest.mark.parametrize("offset", [14.0, 5.5, 5.75, 1.0, 0.0])
def test_a_file_of_an_eastern_zone_lies_before_it_was_written(offset: float) -> None:
    east = round(offset * HOUR)

    shift = shift_to_utc(
        (START + east, END + east), began_ms=None, ended_ms=None, written_ms=END + 2_000
    )

    assert shift == -east


@pytest.mark.parametrize("offset", [-12.0, -8.0, -3.5, 0.0, 2.0])
def test_the_job_of_a_run_names_its_zone(offset: float) -> None:
    moved = round(offset * HOUR)
    job_began = START - 2 * MINUTE

    shift = shift_to_utc(
        (START + moved, END + moved),
        began_ms=job_began,
        ended_ms=END + 3 * MINUTE,
        written_ms=END + 100 * HOUR,  # downloaded later
    )

    assert shift == -moved


def test_a_western_zone_is_not_known_without_the_job() -> None:
    run = (START - 8 * HOUR, END - 8 * HOUR)

    assert shift_to_utc(run, began_ms=None, ended_ms=None, written_ms=END) == 0


def test_a_run_that_no_zone_makes_possible_is_left_as_it_is() -> None:
    run = (START, END)

    assert shift_to_utc(run, began_ms=None, ended_ms=None, written_ms=START - 15 * HOUR) == 0
    assert shift_to_utc(run, began_ms=START + 13 * HOUR, ended_ms=None, written_ms=END * 2) == 0
    # Longer than its job.
    end = START + 10 * MINUTE
    assert shift_to_utc(run, began_ms=START, ended_ms=end, written_ms=end) == 0
