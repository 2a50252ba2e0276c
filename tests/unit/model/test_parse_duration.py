# SPDX-License-Identifier: Apache-2.0
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.model.quantities import parse_duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("1h 30m 5s", 5405.0),
        ("250ms", 0.25),
        ("1m500ms", 60.5),
        ("2d", 172800.0),
        ("10M", 600.0),
        (" 7 s ", 7.0),
        (".5s", 0.5),
        (90, 90.0),
        (1.5, 1.5),
        (0, 0.0),
        ("0", 0.0),
    ],
)
def test_durations_are_read_as_people_write_them(value: str | float, seconds: float) -> None:
    assert parse_duration(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "s",
        "5x",
        "-5",
        "-1s",
        "1m1h",
        "5s5s",
        "1e3",
        "nan",
        "inf",
        "٣s",
        -1,
        float("nan"),
        float("inf"),
        True,
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(value: str | float) -> None:
    with pytest.raises(ValueError, match=r'not a duration: .*"1h30m"'):
        parse_duration(value)


@given(hours=st.integers(0, 99), minutes=st.integers(0, 99), seconds=st.integers(0, 99))
def test_parts_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_duration(text) >= 0
