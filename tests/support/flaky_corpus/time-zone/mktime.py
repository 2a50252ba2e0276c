"""A test takes a UTC time for a local one."""

import calendar
import time


def test_mktime() -> None:
    moment = (2026, 1, 15, 12, 0, 0, 0, 0, 0)
    assert time.mktime(moment) == calendar.timegm(moment)
