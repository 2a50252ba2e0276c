# SPDX-License-Identifier: Apache-2.0
"""Pure. The jobs whose times make up the build's: an estimate from times alone.

No report knows what a step depends on. So the job before another one is its own earlier attempt, or
the one that ended last before it could begin.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.build.steps import BuildStep
from ci_doctor.build.times import runnable_at
from ci_doctor.model.facts.build import JobFacts
from ci_doctor.model.quantities import parse_moment

# Between the clocks of two agents that are kept by NTP.
_SKEW_S: Final = 1.0


class _JobSpan(Struct, frozen=True, kw_only=True):
    began: float
    ended: float
    runnable: float
    job: str
    earlier: str | None  # the job of the attempt before


def critical_path(steps: Iterable[BuildStep]) -> tuple[str, ...]:
    """The ids of the jobs, in order; empty if no job has an id, a begin and an end."""
    spans = [span for step in steps for span in _spans(step)]
    spans.sort(key=lambda each: (each.ended, each.job))
    if not spans:
        return ()
    by_job = {each.job: each for each in spans}
    ends = [each.ended for each in spans]
    path: list[str] = []
    current: _JobSpan | None = spans[-1]
    while current is not None and current.job not in path:
        path.append(current.job)
        own = by_job.get(current.earlier or "")
        current = own or _last_before(current, spans, ends)
    return tuple(reversed(path))


def _spans(step: BuildStep) -> list[_JobSpan]:
    spans: list[_JobSpan] = []
    for attempt in step.attempts:
        span = _span(attempt.facts, spans[-1].job if spans else None)
        if span is not None:
            spans.append(span)
    return spans


def _span(facts: JobFacts, earlier: str | None) -> _JobSpan | None:
    began, ended, runnable = (
        parse_moment(facts.began_at),
        parse_moment(facts.ended_at),
        runnable_at(facts),
    )
    if facts.job is None or began is None or ended is None or runnable is None:
        return None
    return _JobSpan(began=began, ended=ended, runnable=runnable, job=facts.job, earlier=earlier)


def _last_before(
    current: _JobSpan, spans: Sequence[_JobSpan], ends: Sequence[float]
) -> _JobSpan | None:
    """The job that ended last before `current` could begin; None if none did."""
    index = bisect_right(ends, current.runnable + _SKEW_S) - 1
    while index >= 0:
        candidate = spans[index]
        # A job that is shorter than the skew has ended before it could begin, too.
        if candidate.began < current.began:
            return candidate
        index -= 1
    return None
