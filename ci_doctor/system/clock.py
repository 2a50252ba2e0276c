# SPDX-License-Identifier: Apache-2.0
"""Reads the clock, for all of ci-doctor's own process."""

import time

from ci_doctor.model.words import moment_text


def now() -> float:
    """Monotonic seconds, for durations and deadlines."""
    return time.monotonic()


def timestamp() -> str:
    """The current time as RFC 3339 in UTC, to the millisecond."""
    return moment_text(time.time())


def epoch() -> float:
    """Seconds since 1970, to compare with the times of files."""
    return time.time()
