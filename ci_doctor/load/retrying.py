# SPDX-License-Identifier: Apache-2.0
"""Pure. Which refused requests are sent again, and when.

429 means "later", and 503 does if it names a time (RFC 9110, sections 15.6.4 and 10.2.3; RFC 6585,
section 4). Every other status is the server's answer.
"""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_S = 0.1
LONGEST_S = 5.0


def wait_before_retry(
    status: int, retry_after: str | None, tries: int, now: datetime
) -> float | None:
    """Seconds to wait after try number `tries` (from 1) was answered by `status`.

    None if it is not to be repeated. Retry-After, in seconds or as an HTTP date, is honoured, but
    no wait is shorter than FIRST_S. Without it, or if it cannot be read, waits double from FIRST_S
    to LONGEST_S.
    """
    has_time = retry_after is not None
    is_later = status == 429 or (status == 503 and has_time)
    if not is_later:
        return None
    requested_s = None
    if retry_after is not None:
        requested_s = _seconds(retry_after.strip(), now)
    if requested_s is not None:
        return max(requested_s, FIRST_S)
    # No random part, which a client of many servers needs: a run must repeat itself.
    doublings = min(tries - 1, 10)
    wait_s = FIRST_S * 2.0**doublings
    return min(LONGEST_S, wait_s)


def _seconds(text: str, now: datetime) -> float | None:
    """The seconds in a Retry-After; None if it cannot be read."""
    # isdigit() alone takes digits of other scripts, and a superscript two.
    if text.isascii() and text.isdigit():
        # Ten digits are centuries, and thousands of them would take long to convert.
        if len(text) >= 10:
            return math.inf
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:  # "-0000": a time in UTC without a place (RFC 5322, section 3.3)
        date = date.replace(tzinfo=UTC)
    return (date - now).total_seconds()
