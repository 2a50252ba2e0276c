# SPDX-License-Identifier: Apache-2.0
"""Pure. From the clocks that lines of several logs show to seconds on one scale."""

import re
from collections.abc import Callable, Sequence
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


def _iso(match: re.Match[str]) -> LogTime | None:
    """`2026-11-22T14:04:08.123Z`, `2026/11/22 14:04:08`."""
    return _time(match, int(match["y"]), int(match["m"]), int(match["d"]))


def _without_year(match: re.Match[str]) -> LogTime | None:
    """A stamp without a year: vLLM's `01-28 15:59:42`, glog's `I0128 15:59:42.123`."""
    return _time(match, None, int(match["m"]), int(match["d"]))


def _syslog(match: re.Match[str]) -> LogTime | None:
    """`Nov 22 14:04:08`."""
    return _time(match, None, _MONTHS[match["mon"]], int(match["d"]))


def _common_log(match: re.Match[str]) -> LogTime | None:
    """Apache's and nginx's `22/Nov/2026:14:04:08 +0000`."""
    return _time(match, int(match["y"]), _MONTHS[match["mon"]], int(match["d"]))


def _clock_alone(match: re.Match[str]) -> LogTime | None:
    """`14:04:08` or `[14:04:08]`."""
    return _time(match, None, None, None)


def _agent(match: re.Match[str]) -> LogTime | None:
    """The Buildkite agent's `_bk;t=1700000000000` in milliseconds."""
    return LogTime(seconds=int(match["ms"]) / 1000, has_zone=True)


_FORMATS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], LogTime | None]], ...]] = (
    (re.compile(r"_bk;t=(?P<ms>\d{13})"), _agent),
    (re.compile(rf"(?<!\d)(?P<y>20\d\d)[-/](?P<m>\d\d)[-/](?P<d>\d\d)[T _]{_CLOCK}{_ZONE}"), _iso),
    (
        re.compile(
            rf"(?<!\d)(?P<d>\d\d)/(?P<mon>[A-Z][a-z]{{2}})/(?P<y>20\d\d)[: ]{_CLOCK}{_ZONE}"
        ),
        _common_log,
    ),
    (re.compile(rf"(?<![\d-])(?P<m>\d\d)-(?P<d>\d\d) {_CLOCK}"), _without_year),
    (re.compile(rf"(?:^|\s|\[)[IWEF](?P<m>\d\d)(?P<d>\d\d) {_CLOCK}"), _without_year),
    (re.compile(rf"^(?P<mon>[A-Z][a-z]{{2}}) +(?P<d>\d\d?) {_CLOCK}"), _syslog),
    (re.compile(rf"^[\[(]?{_CLOCK}(?=[\])\s,]|$)"), _clock_alone),
)
# A stamp stands at the start; a time in the middle of a sentence is something else's.
_STAMP_CHARACTERS: Final = 120


def log_time(line: str) -> LogTime | None:
    """The time in the first 120 characters of `line`; None if there is none."""
    start = line[:_STAMP_CHARACTERS]
    for pattern, read in _FORMATS:
        match = pattern.search(start)
        if match is None:
            continue
        try:
            time = read(match)
        except (ValueError, KeyError):  # a 31st of February, a month called Foo
            continue
        if time is not None:
            return time
    return None


def _time(
    match: re.Match[str], year: int | None, month: int | None, day: int | None
) -> LogTime | None:
    has_date = month is not None
    zone = _zone(match.groupdict().get("zone"))
    when = datetime(
        year or (_YEAR_WITHOUT_ONE if has_date else 1970),
        month or 1,
        day or 1,
        int(match["H"]),
        int(match["M"]),
        int(match["S"]),
        tzinfo=zone or UTC,
    )
    fraction = float(f"0.{match['f'] or 0}")
    return LogTime(
        seconds=when.timestamp() + fraction,
        has_zone=zone is not None,
        has_date=has_date,
        has_year=year is not None,
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


# Lines before a candidate that may hold its time: a traceback's lines often have none.
_LOOKED_BACK = 80
_END_LINES = 40


def with_times(candidates: Sequence[Candidate], logs: Sequence[LogText]) -> list[Candidate]:
    """`candidates` with their times on one scale, where their lines or earlier ones have any."""
    times: list[list[LogTime | None]] = []
    for index, log in enumerate(logs):
        own = [_written(each.line, log) for each in candidates if each.log == index]
        times.append([*own, _last_time(log.tail(_END_LINES))])
    scale = [iter(each) for each in common_scale(times)]
    return [msgspec.structs.replace(each, at_s=next(scale[each.log])) for each in candidates]


def _written(line: TextLine, log: LogText) -> LogTime | None:
    """The time of `line`, else that of the last line before it that has one."""
    time = _time_of(line)
    if time is not None:
        return time
    return _last_time(log.before(line, _LOOKED_BACK))


def _last_time(lines: Sequence[TextLine]) -> LogTime | None:
    for line in reversed(lines):
        time = _time_of(line)
        if time is not None:
            return time
    return None


def _time_of(line: TextLine) -> LogTime | None:
    return log_time(line.content[:400].decode(errors="replace"))
