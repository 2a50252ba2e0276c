# SPDX-License-Identifier: Apache-2.0
"""The only place that asks what time it is."""

import time
from datetime import UTC, datetime


def now() -> float:
    """Monotonic seconds, for durations and deadlines."""
    return time.monotonic()


def timestamp() -> str:
    """The current time as RFC 3339 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
