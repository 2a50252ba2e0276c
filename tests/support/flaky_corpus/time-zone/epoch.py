"""A test formats a moment in local time."""

from datetime import datetime


def test_epoch() -> None:
    assert datetime.fromtimestamp(86400).strftime("%Y-%m-%d %H:%M") == "1970-01-02 00:00"
