# SPDX-License-Identifier: Apache-2.0
"""Pure. The NVIDIA driver's lines in a file that syslog writes, with their age.

A line begins with `2026-11-22T18:14:26.123456+00:00 host kernel:` (RFC 3339, rsyslog's own format
since Debian 12 and Ubuntu 24.04), or with `Nov 22 18:14:26 host kernel:` in local time before that.
The seconds in brackets after it count from the start of that day's kernel, so they are no age.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from ci_doctor.checks.gpu.xid_lines import DriverLine, is_of_driver, past

_DATED = re.compile(r"(\d{4}-\d\d-\d\dT\S+) ")
_YEARLESS = re.compile(r"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) ")


def dated_lines(text: str, now: datetime) -> Iterator[DriverLine]:
    """The driver's lines of `text`; `now` has a time zone, that of dates without one."""
    for line in text.splitlines():
        if not is_of_driver(line):
            continue
        at = _date(line, now)
        age_s = None
        if at is not None:
            age_s = past((now - at).total_seconds())
        yield DriverLine(text=line, age_s=age_s)


def _date(line: str, now: datetime) -> datetime | None:
    dated = _DATED.match(line)
    try:
        if dated is not None:
            at = datetime.fromisoformat(dated[1])
            return at if at.tzinfo is not None else at.replace(tzinfo=now.tzinfo)
        yearless = _YEARLESS.match(line)
        if yearless is not None:
            return _in_the_past(yearless[1], now)
    except ValueError:
        return None
    return None


def _in_the_past(text: str, now: datetime) -> datetime:
    """The latest such day that is not after `now`. Raises ValueError."""
    at = datetime.strptime(f"{now.year} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=now.tzinfo)
    if at > now:
        return at.replace(year=now.year - 1)
    return at
