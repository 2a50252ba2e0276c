# SPDX-License-Identifier: Apache-2.0
from datetime import datetime, timedelta, timezone

import pytest

from ci_doctor.checks.gpu.dated_lines import dated_lines

# Two hours east of Greenwich, 100 s after new year.
NOW = datetime(2027, 1, 1, 0, 1, 40, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("date", "age_s"),
    [
        pytest.param("2026-12-31T22:01:30.000000+00:00", 10.0, id="in-another-zone"),
        pytest.param("2027-01-01T00:01:30", 10.0, id="without-a-zone"),
        pytest.param("Jan  1 00:01:30", 10.0, id="without-a-year"),
        pytest.param("Dec 31 23:59:50", 110.0, id="last-year"),
        pytest.param("2027-01-01T00:01:50+02:00", 0.0, id="a-clock-that-was-ahead"),
        pytest.param("2027-01-03T00:01:50+02:00", None, id="a-day-to-come"),
        pytest.param("Xyz 99 00:00:00", None, id="no-date"),
        pytest.param("someday", None, id="no-form-of-a-date"),
    ],
)
def test_a_line_has_the_age_of_its_date(date: str, age_s: float | None) -> None:
    text = f"{date} host kernel: [99999.5] NVRM: Xid (PCI:0000:3b:00): 48, DBE\n"

    (line,) = dated_lines(text, NOW)

    assert line.age_s == age_s


def test_lines_of_others_are_left_out() -> None:
    assert list(dated_lines("Jan  1 00:01:30 host kernel: usb 1-1: new device\n", NOW)) == []
