# SPDX-License-Identifier: Apache-2.0
"""Pure. Moments of records, reports and Buildkite's API, read and written: `2026-11-21T09:58:12.000Z`."""

from datetime import UTC, datetime
from typing import Literal


def parse_moment(text: str | None) -> float | None:
    """Seconds since 1970 of an RFC 3339 time; None if it is none, or has no offset from UTC."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            return None
        return parsed.timestamp()
    except (ValueError, OverflowError):
        return None


def moment_text(
    seconds: float, exact_to: Literal["seconds", "milliseconds"] = "milliseconds"
) -> str:
    """`seconds` since 1970 as RFC 3339 in UTC. Raises ValueError, OverflowError or OSError outside the calendar."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec=exact_to)
    return text.replace("+00:00", "Z")
