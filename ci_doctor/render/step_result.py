# SPDX-License-Identifier: Apache-2.0
"""Pure. What the annotation of a step is about: one of its jobs."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.model.earlier_attempt import EarlierAttempt
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.step_words import passed_without_evidence


class StepResult(Struct, frozen=True, kw_only=True):
    """One job of a step, and what is known of its earlier attempts.

    reports: of this job, the oldest first. page: the path of the leading report's page on the
    Artifacts tab; None if there is none.
    """

    record: JobRecord
    reports: tuple[Report, ...] = ()
    earlier: tuple[EarlierAttempt, ...] = ()
    page: str | None = None


def has_passed(step: StepResult) -> bool:
    """Whether the job passed: by its verdict, or because nothing was judged and its command ended with 0."""
    record = step.record
    if record.is_cancelled or record.is_timed_out:
        return False
    if record.verdict == Verdict.PASS:
        return True
    return passed_without_evidence(record, is_judged=is_judged(step.reports))


def is_judged(reports: Sequence[Report]) -> bool:
    """Whether a report judges the job, or an error ended one; one on caches does neither."""
    return any(each.verdict is not None or each.error is not None for each in reports)
