# SPDX-License-Identifier: Apache-2.0
"""Pure. Durations, sizes and moments as text, read and written."""

import math
import re
from datetime import UTC, datetime
from typing import Literal

# Every start loads this module: the patterns are compiled where they are used.
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = r"(\d+(?:\.\d*)?|\.\d+)"
_PARTS = "".join(rf"(?:{_PART}\s*{unit})?\s*" for unit in _UNITS)


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
    if re.fullmatch(_PART, text, re.ASCII):
        return float(text)
    match = re.fullmatch(_PARTS, text, re.ASCII | re.IGNORECASE)
    if not text or match is None:
        return None
    parts = zip(match.groups(), _UNITS.values(), strict=True)
    # Rounded once at the end, not at each addition.
    return math.fsum(float(number) * unit for number, unit in parts if number is not None)


_SIZE_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TB": 10**12,
    "TIB": 2**40,
}
_SIZE = r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)"


def parse_size(value: str | int) -> int:
    """Bytes: a whole number, or text such as "64MiB", "1.5 GB".

    Raises ValueError with a sentence for the user.
    """
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"{value} is no size")
        return value
    match = re.fullmatch(_SIZE, value.strip(), re.ASCII)
    unit = match[2].upper() if match is not None else ""
    if match is None or unit not in _SIZE_UNITS:
        raise ValueError(f'"{value}" is no size; write for example "64MiB"')
    return int(float(match[1]) * _SIZE_UNITS[unit])


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


def known_moment_text(seconds: float | None) -> str | None:
    """The same; None for None, and outside the calendar."""
    if seconds is None:
        return None
    try:
        return moment_text(seconds)
    except (ValueError, OverflowError, OSError):
        return None


# Part of a step's timeout is kept for checkout, setup and the upload of the report.
_LEAST_MARGIN_S = 60.0
_MARGIN_SHARE = 0.1


def step_seconds(timeout: str) -> tuple[float, float] | None:
    """The timeout of a Buildkite step, and what it leaves, in seconds; None without one.

    BUILDKITE_TIMEOUT is in minutes, or the word `false`. It counts from the start of the job, hooks
    and uploads included (https://buildkite.com/docs/pipelines/configure/build-timeouts), and a job
    cannot know when it started. So a margin is left: a tenth, at least a minute, at most half.
    """
    try:
        timeout_s = 60.0 * int(timeout)
    except ValueError:
        return None
    if timeout_s <= 0:
        return None
    return timeout_s, timeout_s - min(
        max(_LEAST_MARGIN_S, _MARGIN_SHARE * timeout_s), timeout_s / 2
    )
