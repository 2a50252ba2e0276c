# SPDX-License-Identifier: Apache-2.0
"""Pure. From the clocks that lines of several logs show to seconds on one scale."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

import msgspec
from msgspec import Struct

from ci_doctor.diagnosis.log_text import LogText, TextLine
from ci_doctor.diagnosis.rank import Candidate


class LogTime(Struct, frozen=True, kw_only=True):
    """A time as a line has it.

    seconds: since 1970 in UTC if `has_zone`, else as if the line's local time were UTC. has_date:
    the line names a day; without one the day is that of 1970-01-01. has_year: it names the year;
    without one it is 1972, which has a 29 February.
    """

    seconds: float
    has_zone: bool
    has_date: bool = True
    has_year: bool = True


_YEAR_WITHOUT_ONE: Final = 1972
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_CLOCK = r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?: ?(?P<zone>Z|[+-]\d\d:?\d\d))?"


# The Buildkite agent's milliseconds; `2026-11-22T14:04:08.123Z`, `2026/11/22 14:04:08`; Apache's and
# nginx's `22/Nov/2026:14:04:08 +0000`; vLLM's `01-28 15:59:42`, glog's `I0128 15:59:42.123`;
# `Nov 22 14:04:08`; `14:04:08` or `[14:04:08]`.
_FORMATS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"_bk;t=(?P<ms>\d{13})",
        rf"(?<!\d)(?P<y>20\d\d)[-/](?P<m>\d\d)[-/](?P<d>\d\d)[T _]{_CLOCK}{_ZONE}",
        rf"(?<!\d)(?P<d>\d\d)/(?P<mon>[A-Z][a-z]{{2}})/(?P<y>20\d\d)[: ]{_CLOCK}{_ZONE}",
        rf"(?<![\d-])(?P<m>\d\d)-(?P<d>\d\d) {_CLOCK}",
        rf"(?:^|\s|\[)[IWEF](?P<m>\d\d)(?P<d>\d\d) {_CLOCK}",
        rf"^(?P<mon>[A-Z][a-z]{{2}}) +(?P<d>\d\d?) {_CLOCK}",
        rf"^[\[(]?{_CLOCK}(?=[\])\s,]|$)",
    )
)
# A stamp stands at the start; a time in the middle of a sentence is something else's.
_STAMP_CHARACTERS: Final = 120


def log_time(line: str) -> LogTime | None:
    """The time in the first 120 characters of `line`; None if there is none."""
    start = line[:_STAMP_CHARACTERS]
    for match in filter(None, (pattern.search(start) for pattern in _FORMATS)):
        try:
            return _time(match.groupdict())
        except (ValueError, KeyError):  # a 31st of February, a month called Foo
            continue
    return None


def _time(groups: dict[str, str | None]) -> LogTime:
    parts = {name: value for name, value in groups.items() if value is not None}
    if "ms" in parts:
        return LogTime(seconds=int(parts["ms"]) / 1000, has_zone=True)
    has_date = "d" in parts
    month = _MONTHS[parts["mon"]] if "mon" in parts else int(parts.get("m", 1))
    zone = _zone(parts.get("zone"))
    when = datetime(
        int(parts.get("y", _YEAR_WITHOUT_ONE if has_date else 1970)),
        month,
        int(parts.get("d", 1)),
        int(parts["H"]),
        int(parts["M"]),
        int(parts["S"]),
        tzinfo=zone or UTC,
    )
    return LogTime(
        seconds=when.timestamp() + float(f"0.{parts.get('f', 0)}"),
        has_zone=zone is not None,
        has_date=has_date,
        has_year="y" in parts,
    )


def _zone(text: str | None) -> timezone | None:
    if not text:
        return None
    if text == "Z":
        return UTC
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    return timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))


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
    lasts = [next((time for time in reversed(times) if time is not None), None) for times in logs]
    known = [last for last in lasts if last is not None]
    # The last time of the log that names most.
    reference = max(
        known, key=lambda time: (time.has_year, time.has_date, time.has_zone), default=None
    )
    return [_on_scale(times, last, reference) for times, last in zip(logs, lasts, strict=True)]


def _on_scale(
    times: Sequence[LogTime | None], last: LogTime | None, reference: LogTime | None
) -> list[float | None]:
    """The seconds of a log that ends at `last`."""
    if last is None or reference is None:
        return [None] * len(times)
    seconds = last.seconds
    if not last.has_date:
        # The day that brings both ends nearest.
        seconds += round((reference.seconds - seconds) / _DAY_S) * _DAY_S
    elif not last.has_year and reference.has_year:
        seconds = _in_year(seconds, reference.seconds)
    if last.has_zone != reference.has_zone:
        seconds += round((reference.seconds - seconds) / _QUARTER_S) * _QUARTER_S
    shift = seconds - last.seconds
    return [None if time is None else time.seconds + shift for time in times]


def _in_year(seconds: float, reference: float) -> float:
    """The same day and time in the year of `reference`."""
    year = datetime.fromtimestamp(reference, UTC).year
    day = datetime.fromtimestamp(seconds, UTC)
    try:
        return day.replace(year=year).timestamp()
    except ValueError:  # a 29 February
        return day.replace(year=year, month=3, day=1).timestamp()


# Lines before a candidate that may hold its time: a traceback's lines often have none.
_LOOKED_BACK = 80
_END_LINES = 40


def with_times(candidates: Sequence[Candidate], logs: Sequence[LogText]) -> list[Candidate]:
    """`candidates` with their times on one scale, where their lines or earlier ones have any."""
    times: list[list[LogTime | None]] = []
    for index, log in enumerate(logs):
        own = [
            _last_time([each.line]) or _last_time(log.before(each.line, _LOOKED_BACK))
            for each in candidates
            if each.log == index
        ]
        times.append([*own, _last_time(log.tail(_END_LINES))])
    scale = [iter(each) for each in common_scale(times)]
    return [msgspec.structs.replace(each, at_s=next(scale[each.log])) for each in candidates]


def _last_time(lines: Sequence[TextLine]) -> LogTime | None:
    starts = (line.content[:400].decode(errors="replace") for line in reversed(lines))
    return next((time for start in starts if (time := log_time(start)) is not None), None)
