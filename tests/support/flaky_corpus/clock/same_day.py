"""A test expects two dates to be the same."""

from datetime import date


def test_same_day() -> None:
    before = date.today()
    sum(range(1_000_000))
    assert date.today() == before
