# SPDX-License-Identifier: Apache-2.0
"""Moments that other machines and services have written."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.model.words import parse_duration, parse_moment, parse_size


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (7, 7),
        ("0", 0),
        ("64MiB", 64 << 20),
        ("1.5 GB", 1_500_000_000),
        (" 3kib ", 3072),
        ("2TiB", 2 << 40),
    ],
)
def test_a_size_in_bytes(value: str | int, count: int) -> None:
    assert parse_size(value) == count


@pytest.mark.parametrize("value", ["", "MiB", "-1", "1 XB", "1e3", "inf", -1])
def test_what_is_no_size_is_refused(value: str | int) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(value)


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


@pytest.mark.parametrize(
    "text", ["1970-01-01T00:01:00Z", "1970-01-01T00:01:00.000Z", "1970-01-01T02:01:00+02:00"]
)
def test_a_moment_is_seconds_since_1970(text: str) -> None:
    assert parse_moment(text) == 60


@pytest.mark.parametrize(
    "text",
    [None, "", "soon", "1970-01-01T00:01:00", "1970-13-01T00:00:00Z"],
)
def test_what_names_no_instant_is_unknown(text: str | None) -> None:
    assert parse_moment(text) is None
