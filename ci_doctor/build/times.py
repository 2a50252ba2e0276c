# SPDX-License-Identifier: Apache-2.0
"""Pure. Times of jobs, which agents with clocks of their own have written down."""

from ci_doctor.model.facts.build import JobFacts
from ci_doctor.model.quantities import moment_text, parse_moment


def in_utc(text: str | None) -> str | None:
    """An RFC 3339 time in UTC, to the millisecond; None if `text` is none."""
    return text_of(parse_moment(text))


def text_of(seconds: float | None) -> str | None:
    """The same of seconds since 1970; None outside the calendar."""
    if seconds is None:
        return None
    try:
        return moment_text(seconds)
    except (ValueError, OverflowError, OSError):
        return None


def duration_s(job: JobFacts) -> float | None:
    """Wall clock of a job; None if a time is unknown."""
    began = parse_moment(job.began_at)
    ended = parse_moment(job.ended_at)
    if began is None or ended is None:
        return None
    return round(ended - began, 3)


def runnable_at(job: JobFacts) -> float | None:
    """When the job could have begun: earlier than it did by its time in the queue, if known."""
    began = parse_moment(job.began_at)
    if began is None:
        return None
    return began - (job.queued_s or 0.0)
