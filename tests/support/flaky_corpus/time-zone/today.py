"""A test compares the local date with the one in UTC."""

from datetime import UTC, date, datetime


def test_today() -> None:
    assert date.today() == datetime.now(UTC).date()
