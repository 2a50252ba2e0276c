# SPDX-License-Identifier: Apache-2.0
"""Pure. Parses moments of records, reports and Buildkite's API: `2026-11-21T09:58:12.000Z`."""

from datetime import datetime


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
