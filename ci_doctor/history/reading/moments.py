# SPDX-License-Identifier: Apache-2.0
"""Pure. Times in evidence files -> integers: milliseconds, and milliseconds since 1970 in UTC."""

import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from ci_doctor.model.quantities import moment_text

_SECOND: Final = 1000
# Of a duration: a figure above it is a mistake of the file, and no integer of the database.
_MOST_MS: Final = 366 * 86_400 * _SECOND


@lru_cache(maxsize=256)
def moment_ms(text: str | None) -> int | None:
    """The moment of an ISO 8601 text; None if it is none.

    A time without an offset counts as UTC here; `local_time` moves it if it cannot be.
    """
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=UTC)
        return round(parsed.timestamp() * _SECOND)
    except (ValueError, OverflowError):
        return None


def has_offset(text: str) -> bool:
    """Whether an ISO 8601 text, which is a moment, says how far from UTC it is."""
    return datetime.fromisoformat(text).tzinfo is not None


@lru_cache(maxsize=4096)
def milliseconds(seconds: str | float | None) -> int | None:
    """A duration in seconds, as a number or a text; None if it is none.

    `1,234.5` is a duration too, because Surefire groups digits; a group never begins with 0, so the
    comma of `0,123` is a decimal one, as tools write it on German or French machines.
    """
    if seconds is None or isinstance(seconds, bool):
        return None
    try:
        value = float(_point(seconds) if isinstance(seconds, str) else seconds)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(value) or value < 0:
        return None
    return min(round(value * _SECOND), _MOST_MS)


def _point(text: str) -> str:
    return text.replace(",", "." if text.strip().startswith("0,") else "")


def utc_text(moment: int) -> str:
    """RFC 3339 in UTC of a moment."""
    return moment_text(moment / _SECOND)
