# SPDX-License-Identifier: Apache-2.0
"""Pure. Puts the times of several logs on one scale, also if their clocks' formats differ."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from ci_doctor.diagnosis.lines.clock import LogTime

_DAY_S: Final = 86_400.0
# Time zones differ by multiples of a quarter of an hour (tz database).
_QUARTER_S: Final = 900.0


def common_scale(logs: Sequence[Sequence[LogTime | None]]) -> list[list[float | None]]:
    """The times of each log in seconds on one scale.

    Each item of `logs` is one log: the times of some of its lines, in the order of the lines, of
    which the last is that of its end. What a log does not name is taken from the log that names
    most: the year, the day, the zone. The logs of a job end at about the same time, so the zone of
    a log without one is the offset by quarters of an hour that brings the ends nearest.
    """
    reference = _reference(logs)
    if reference is None:
        return [[None] * len(times) for times in logs]
    return [_on_scale(times, reference) for times in logs]


def _reference(logs: Sequence[Sequence[LogTime | None]]) -> LogTime | None:
    """The last time of the log that names most."""
    best: LogTime | None = None
    for times in logs:
        last = _last(times)
        if last is not None and (best is None or _named(last) > _named(best)):
            best = last
    return best


def _named(time: LogTime) -> tuple[bool, bool, bool]:
    return time.has_year, time.has_date, time.has_zone


def _last(times: Sequence[LogTime | None]) -> LogTime | None:
    for time in reversed(times):
        if time is not None:
            return time
    return None


def _on_scale(times: Sequence[LogTime | None], reference: LogTime) -> list[float | None]:
    last = _last(times)
    if last is None:
        return [None] * len(times)
    shift = _shift(last, reference)
    return [None if time is None else time.seconds + shift for time in times]


def _shift(last: LogTime, reference: LogTime) -> float:
    """What to add to the seconds of a log that ends at `last`."""
    seconds = last.seconds
    if not last.has_date:
        # The day that brings both ends nearest.
        seconds += round((reference.seconds - seconds) / _DAY_S) * _DAY_S
    elif not last.has_year and reference.has_year:
        seconds = _in_year(seconds, reference.seconds)
    if last.has_zone != reference.has_zone:
        seconds += round((reference.seconds - seconds) / _QUARTER_S) * _QUARTER_S
    return seconds - last.seconds


def _in_year(seconds: float, reference: float) -> float:
    """The same day and time in the year of `reference`."""
    year = datetime.fromtimestamp(reference, UTC).year
    day = datetime.fromtimestamp(seconds, UTC)
    try:
        return day.replace(year=year).timestamp()
    except ValueError:  # a 29 February
        return day.replace(year=year, month=3, day=1).timestamp()
