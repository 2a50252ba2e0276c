# SPDX-License-Identifier: Apache-2.0
"""Which refusals are asked again, and when. Pure.

429 says "later", and 503 does where it names a time (RFC 9110, sections 15.6.4 and 10.2.3; RFC 6585, section 4). Every
other status is the server's answer.
"""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_S = 0.1
LONGEST_S = 5.0


def wait_before_retry(
    status: int, retry_after: str | None, tries: int, now: datetime
) -> float | None:
    """Seconds to wait after the `tries`-th try (from 1) was answered by `status`; None where it is not to be repeated.

    Retry-After, in seconds or as an HTTP date, is honoured, but no wait is shorter than FIRST_S. Without it, or where it
    cannot be read, waits double from FIRST_S to LONGEST_S, without a random part: a run repeats itself.
    """
    if status != 429 and not (status == 503 and retry_after is not None):
        return None
    asked = _seconds(retry_after.strip(), now) if retry_after is not None else None
    if asked is None:
        return float(min(LONGEST_S, FIRST_S * 2 ** min(tries - 1, 10)))
    return max(asked, FIRST_S)


def _seconds(text: str, now: datetime) -> float | None:
    if text.isascii() and text.isdigit():
        return float(text) if len(text) < 10 else math.inf
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
