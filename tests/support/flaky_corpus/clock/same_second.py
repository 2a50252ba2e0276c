"""A test expects two reads of the clock in one second."""

import time


def test_same_second() -> None:
    before = int(time.time())
    sum(range(1_000_000))
    assert int(time.time()) == before
