# SPDX-License-Identifier: Apache-2.0
"""Reads the clock, for all of ci-doctor's own process."""

import time
from datetime import UTC, datetime


def now() -> float:
    """Monotonic seconds, for durations and deadlines."""
    return time.monotonic()


def timestamp() -> str:
    """The current time as RFC 3339 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch() -> float:
    """Seconds since 1970, to compare with the times of files."""
    return time.time()
