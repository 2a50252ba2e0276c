"""A test expects the name of a file to hold the present second."""

import time


def _name() -> str:
    return time.strftime("report-%Y%m%d-%H%M%S.txt")


def test_name() -> None:
    name = _name()
    total = sum(number * number for number in range(200_000))
    assert total > 0
    assert _name() == name
