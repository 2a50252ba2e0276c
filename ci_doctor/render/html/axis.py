# SPDX-License-Identifier: Apache-2.0
"""Pure. The time axis of a build: from its first moment to its last, in percent of the picture."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median_low

from msgspec import Struct

from ci_doctor.model.facts.build import BuildFacts, JobFacts
from ci_doctor.model.quantities import parse_moment

_MOST_TICKS = 8
_MINUTE = 60
_HOUR = 3600
_DAY = 86400
# Round distances between ticks, in seconds.
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY),
)
_LAST_LABEL = 94  # percent: a label that begins later would leave the picture
_LONGEST_QUEUE = 30 * _DAY  # more is no time in a queue, and would leave no room for the jobs
_LONGEST_BUILD = 30 * _DAY  # from its middle: a job beyond it had a wrong clock
_LAST_INSTANT = 2e11  # of the year 8307: what is later is no time of a job, and may have no date
_MOST_SECONDS = 1e11


class AxisTick(Struct, frozen=True):
    """A moment at a place in percent: the time of day in UTC, and the time since the begin."""

    at: str
    clock: str
    offset: str


class JobSpan(Struct, frozen=True):
    """When a job ran, in seconds since 1970; `queued` is when it became runnable.

    `end` is `begin` if no end is known.
    """

    queued: float
    begin: float
    end: float


class Axis(Struct, frozen=True):
    """The axis from `begin`, in seconds since 1970, for `seconds`.

    `grid` is the distance of the ticks, in percent. `took` is the build's own length, which may be 0.
    `strays` is the number of attempts that have no place on it: their clocks were wrong.
    """

    begin: float
    seconds: float
    took: float
    strays: int
    ticks: tuple[AxisTick, ...]
    grid: str

    def place(self, instant: float) -> float:
        """Where `instant` stands, in percent."""
        return 100 * (instant - self.begin) / self.seconds

    def has(self, span: JobSpan) -> bool:
        """Whether the whole of `span` has its place here."""
        # The difference, as it was taken for the length: a sum would be rounded in another way.
        return self.begin <= span.queued and span.end - self.begin <= self.seconds


def build_axis(facts: BuildFacts) -> Axis | None:
    """The axis on which the known times of a build have their place; None if no time is known.

    An attempt that is months away from the others, by the clock of its machine, would leave no room for them.
    """
    known_spans = list(_spans(facts))
    if not known_spans:
        return None
    middle = median_low(span.begin for span in known_spans)
    spans = [
        span
        for span in known_spans
        if (middle - _LONGEST_BUILD <= span.queued and span.end <= middle + _LONGEST_BUILD)
    ]
    if not spans:
        spans = known_spans
    begin = min(span.queued for span in spans)
    end = max(span.end for span in spans)
    # A build of no length would be a divisor of 0.
    took = end - begin
    seconds = max(took, 1.0)
    step = _step(seconds)
    ticks = tuple(_ticks(begin, seconds, step))
    return Axis(
        begin=begin,
        seconds=seconds,
        took=took,
        strays=len(known_spans) - len(spans),
        ticks=ticks,
        grid=percent(100 * step / seconds),
    )


def _spans(facts: BuildFacts) -> Iterator[JobSpan]:
    for step in facts.build_steps:
        for attempt in step.attempts:
            span = span_of(attempt)
            if span is not None:
                yield span


def span_of(attempt: JobFacts) -> JobSpan | None:
    """When `attempt` ran; None if its begin is unknown."""
    begin = instant(attempt.began_at)
    if begin is None:
        return None
    end = instant(attempt.ended_at)
    # Clocks of two machines may differ, and a job has no negative length.
    last = begin if end is None else max(end, begin)
    queued = queue_time(attempt) or 0.0
    return JobSpan(begin - queued, begin, last)


def queue_time(attempt: JobFacts) -> float | None:
    """Seconds in the queue; None if they are unknown, or no time that a job can wait."""
    queued = attempt.queued_s
    if queued is None or not 0 <= queued <= _LONGEST_QUEUE:
        return None
    return queued


def wall_time(attempt: JobFacts) -> float | None:
    """Seconds from begin to end; None if one of them is unknown."""
    span = span_of(attempt)
    if span is None or instant(attempt.ended_at) is None:
        return None
    return span.end - span.begin


def instant(text: str | None) -> float | None:
    """RFC 3339 -> seconds since 1970; None for anything else."""
    seconds = parse_moment(text)
    if seconds is None or not 0 <= seconds <= _LAST_INSTANT:
        return None
    return seconds


def known(seconds: float | None) -> float | None:
    """`seconds` if they are a length of time; None for less than 0, infinity and no number."""
    if seconds is None or not 0 <= seconds <= _MOST_SECONDS:
        return None
    return seconds


def percent(share: float) -> str:
    """`12.5%`: two digits, which is a tenth of a pixel on a wide screen."""
    number = f"{share:.2f}".rstrip("0").rstrip(".")
    return f"{number}%"


def _step(seconds: float) -> float:
    for step in _STEPS:
        if seconds / step <= _MOST_TICKS:
            return step
    return _DAY * math.ceil(seconds / _DAY / _MOST_TICKS)


def _ticks(begin: float, seconds: float, step: float) -> Iterator[AxisTick]:
    for number in range(int(seconds / step) + 1):
        offset = number * step
        place = 100 * offset / seconds
        if place > _LAST_LABEL:
            return
        yield AxisTick(percent(place), _clock(begin + offset, step), _offset(offset, step))


def _clock(moment: float, step: float) -> str:
    """The time of day in UTC, as exact as the axis is; the day, if days lie between two ticks."""
    form = "%H:%M"
    if step < _MINUTE:
        form = "%H:%M:%S"
    if step >= _DAY:
        form = "%m-%d"
    return datetime.fromtimestamp(moment, UTC).strftime(form)


def _offset(seconds: float, step: float) -> str:
    if step < _MINUTE:
        return f"+{seconds:.0f} s"
    if step < _HOUR:
        return f"+{seconds / _MINUTE:.0f} min"
    if step < _DAY:
        return f"+{seconds / _HOUR:.0f} h"
    return f"+{seconds / _DAY:.0f} d"


_LEAST_WIDTH = 0.25  # percent: a shorter bar could not be seen


class AttemptBar(Struct, frozen=True, kw_only=True):
    """An attempt on the axis, all in percent.

    `queue` is where its time in the queue begins and ends. `since` is the end of the attempt before
    it, `until` its own end if another attempt follows.
    """

    x: str
    width: str
    end: str
    queue: tuple[str, str] | None
    since: str | None
    until: str | None


def attempt_bar(
    attempt: JobFacts, before: JobFacts | None, axis: Axis, *, is_last: bool
) -> AttemptBar | None:
    """`attempt`, which followed `before`, on `axis`; None if it has no place there."""
    span = _on(axis, attempt)
    if span is None:
        return None
    begin = axis.place(span.begin)
    end = axis.place(span.end)
    width = max(end - begin, _LEAST_WIDTH)
    earlier = _on(axis, before) if before is not None else None
    # What begins at the last moment of the build has a bar, too.
    x = min(begin, 100 - width)
    return AttemptBar(
        x=percent(x),
        width=percent(width),
        end=percent(x + width),
        queue=_queue(span, axis),
        since=percent(axis.place(earlier.end)) if earlier is not None else None,
        until=None if is_last else percent(end),
    )


def _on(axis: Axis, attempt: JobFacts) -> JobSpan | None:
    """When `attempt` ran; None if that is unknown, or not on `axis`."""
    span = span_of(attempt)
    if span is None or not axis.has(span):
        return None
    return span


def _queue(span: JobSpan, axis: Axis) -> tuple[str, str] | None:
    if span.queued >= span.begin:
        return None
    return percent(axis.place(span.queued)), percent(axis.place(span.begin))
