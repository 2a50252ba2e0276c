# SPDX-License-Identifier: Apache-2.0
"""Pure. The record of a job that the plugin has not recorded, and its words for later attempts."""

from collections.abc import Sequence

from msgspec.structs import replace

from ci_doctor.buildkite.attempt_history import one_line_cause
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.job_end import JobEnd, worst_verdict
from ci_doctor.model.about import About
from ci_doctor.model.earlier_attempt import EarlierAttempt
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.report import Report
from ci_doctor.model.verdict import CANCELLED, Verdict, rank
from ci_doctor.render.headline import TIMED_OUT
from ci_doctor.render.step_cause import leading_report, short_cause, step_cause
from ci_doctor.version import tool_version


def record_of(
    reports: Sequence[Report], job: JobEnvironment, end: JobEnd | None = None
) -> JobRecord:
    """What is known of `job` without its plugin; `end` is None while its command still runs."""
    leading = leading_report(reports)
    status = end.failures[0] if end is not None and end.failures else None
    command_status = None
    if end is not None and end.has_run:
        command_status = status or 0
    summary = "ci-doctor made no report in this job"
    if leading is not None:
        summary = leading.summary
    return JobRecord(
        tool_version=tool_version(),
        about=_about(job),
        label=job.label,
        parallel_count=job.parallel_count,
        command=job.command,
        command_status=command_status,
        exit_status=status,
        is_cancelled=end is not None and end.is_cancelled,
        verdict=worst_verdict(reports, end),
        summary=summary,
    )


def with_others(record: JobRecord, others: Sequence[Report]) -> JobRecord:
    """`record` with the verdict of the worst of `others`, which it was not made of, if it is worse."""
    worst = worst_verdict(others) if others else None
    if worst is None or rank(worst) >= rank(record.verdict):
        return record
    leading = leading_report(others)
    summary = leading.summary if leading is not None else record.summary
    return replace(record, verdict=worst, summary=summary, cause=None)


def _about(job: JobEnvironment) -> About:
    return About(
        build=job.build_number,
        build_url=job.build_url,
        job=job.job_id,
        step=job.step_key,
        parallel_index=job.parallel_job,
        attempt=job.retry_count,
        commit=job.commit,
        branch=job.branch,
    )


def said_of(record: JobRecord, reports: Sequence[Report], job: JobEnvironment) -> EarlierAttempt:
    """What this attempt says, in the few words that the attempts after it show."""
    leading = leading_report(reports)
    ordered = [leading] if leading is not None else []
    ordered += [report for report in reports if report is not leading]
    cause = step_cause(record.cause, ordered) if record.verdict != Verdict.PASS else None
    text = short_cause(cause) if cause is not None else None
    verdict = record.verdict
    if record.is_timed_out:
        verdict = TIMED_OUT
    elif record.is_cancelled:
        verdict = CANCELLED
    return EarlierAttempt(
        attempt=job.retry_count,
        verdict=verdict,
        cause=one_line_cause(text),
        exit_status=record.exit_status,
        job=job.job_id,
    )
