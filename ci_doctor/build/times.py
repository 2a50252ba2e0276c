# SPDX-License-Identifier: Apache-2.0
"""Pure. Times of jobs, which agents with clocks of their own have written down."""

from datetime import UTC, datetime

from ci_doctor.model.facts.build import JobFacts
from ci_doctor.model.parse_moment import parse_moment


def in_utc(text: str | None) -> str | None:
    """An RFC 3339 time in UTC, to the millisecond; None if `text` is none."""
    second = parse_moment(text)
    if second is None:
        return None
    try:
        at = datetime.fromtimestamp(second, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
