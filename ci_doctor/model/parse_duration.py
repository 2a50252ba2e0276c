# SPDX-License-Identifier: Apache-2.0
"""Pure. Parses durations of the configuration: `1h30m`. `render.formatting` writes them."""

import math
import re

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = r"(\d+(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(_PART, re.ASCII)
_PARTS = re.compile(
    "".join(rf"(?:{_PART}\s*{unit})?\s*" for unit in _UNITS), re.ASCII | re.IGNORECASE
)


def parse_duration(value: str | float) -> float:
    """Seconds in `value`: a number, or text such as "90", "400s", "10m", "1.5h", "1h30m", "250ms".

    Units are d, h, m, s and ms, in this order, each at most once. Zero is a duration; the caller
    decides whether it makes sense. Raises ValueError, with a sentence for the user, if `value` is
    neither, negative or not finite.
    """
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        raise ValueError(
            f"not a duration: {value!r}; "
            'write seconds as a number, or text such as "90s", "5m", "1h30m"'
        )
    return seconds


def _seconds(value: str | float) -> float | None:
    """The seconds in `value`; None if it is no duration."""
    if isinstance(value, bool):  # an int to Python
        return None
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    match = _PARTS.fullmatch(text)
    if not text or match is None:
        return None
    parts = []
    for number, unit in zip(match.groups(), _UNITS.values(), strict=True):
        if number is not None:
            parts.append(float(number) * unit)
    # Rounded once at the end, not at each addition.
    return math.fsum(parts)
