# SPDX-License-Identifier: Apache-2.0
"""Pure. An attempt as a bar on the time axis."""

from msgspec import Struct

from ci_doctor.model.facts.build import JobFacts
from ci_doctor.render.html.build_page.axis import Axis, JobSpan, percent, span_of

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
