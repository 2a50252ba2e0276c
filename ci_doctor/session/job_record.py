# SPDX-License-Identifier: Apache-2.0
"""Pure. The record of a job at its end, for its annotation and the report of its build, and its words for later attempts."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.attempt_history import one_line_cause
from ci_doctor.buildkite.job import JobEnd, JobEnvironment, explains, worst_verdict
from ci_doctor.model.about import About
from ci_doctor.model.cause import Cause, for_record
from ci_doctor.model.earlier_attempt import EarlierAttempt
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.report import Report
from ci_doctor.model.report_cause import cause_of_report, diagnosed_cause
from ci_doctor.model.verdict import CANCELLED, Verdict, is_green, rank
from ci_doctor.render.headline import TIMED_OUT
from ci_doctor.render.step_cause import leading_report, short_cause, step_cause
from ci_doctor.version import tool_version


class FinishedJob(Struct, frozen=True, kw_only=True):
    """What is known of a job: by the plugin's last hook, or by a command that publishes its report.

    end: None while the job's command still runs. reports: with their directories; `root`: above these,
    None if no record is written there. command_status: of the command before a hook of ours changed
    it, None if none kept it. began_at, ended_at: RFC 3339, None if nobody knows.
    """

    job: JobEnvironment
    about: About
    end: JobEnd | None
    reports: Sequence[tuple[Path, Report]]
    root: Path | None = None
    command_status: int | None = None
    began_at: str | None = None
    ended_at: str | None = None


def record_of(finished: FinishedJob) -> JobRecord:
    """The record; it still holds secrets if its reports do."""
    reports = [report for _, report in finished.reports]
    end = finished.end
    verdict = worst_verdict(reports, end)
    cause = None if end is None or is_green(verdict) else job_cause(reports, end)
    return JobRecord(
        tool_version=tool_version(),
        about=finished.about,
        label=finished.job.label,
        parallel_count=finished.job.parallel_count,
        command=finished.job.command,
        work=finished.job.work,
        began_at=finished.began_at,
        ended_at=finished.ended_at,
        command_status=_command_status(finished),
        exit_status=_exit_status(end),
        is_cancelled=end is not None and end.is_cancelled,
        is_timed_out=end is not None and end.is_timed_out,
        verdict=verdict,
        summary=_summary(finished, verdict, cause),
        cause=cause,
        reports=_places(finished),
    )


def job_cause(reports: Sequence[Report], end: JobEnd) -> Cause | None:
    """The cause, as a record keeps it; None if no report names one.

    A report that explains the job's status comes first, then what was diagnosed, the last diagnosis
    first: it has read the most. Then the first error of any report.
    """
    explaining = [each for each in reports if any(explains(each, code) for code in end.failures)]
    diagnosing = [each for each in reversed(reports) if diagnosed_cause(each) is not None]
    causes = map(cause_of_report, (*explaining, *diagnosing, *reports))
    cause = next((each for each in causes if each is not None), None)
    return None if cause is None else for_record(cause)


def _command_status(finished: FinishedJob) -> int | None:
    if finished.command_status is not None:
        return finished.command_status
    return None if finished.end is None else finished.end.command_status


def _places(finished: FinishedJob) -> tuple[str, ...]:
    root = finished.root
    if root is None:
        return ()
    return tuple(str(folder.relative_to(root)) for folder, _ in finished.reports)


def _exit_status(end: JobEnd | None) -> int | None:
    """What the job ends with: the status of the last hook if that failed, else of the command."""
    if end is None:
        return None
    if end.failures:
        # The agent ends with 255 for a command that a signal ended (os.Exit(-1)).
        return end.failures[-1] % 256
    return 0 if end.has_run else None


def _summary(finished: FinishedJob, verdict: str, cause: Cause | None) -> str:
    end = finished.end
    reports = [report for _, report in finished.reports]
    if end is None:
        return _of_a_running_job(reports)
    if end.is_timed_out or end.is_cancelled or not (end.failures or end.has_run):
        return _of_no_end(end)
    if end.failures:
        return _of_failure(reports, finished, end, cause)
    for report in reports:
        if report.verdict == verdict:
            return report.summary
    return "the command passed, and no report judges it"


def _of_no_end(end: JobEnd) -> str:
    if end.is_timed_out:
        return "the job ran into its time limit"
    if end.is_cancelled:
        return "the job was cancelled"
    return "the job ended before its command"


def _of_a_running_job(reports: Sequence[Report]) -> str:
    leading = leading_report(reports)
    return "ci-doctor made no report in this job" if leading is None else leading.summary


def _of_failure(
    reports: Sequence[Report], finished: FinishedJob, end: JobEnd, cause: Cause | None
) -> str:
    for report in reports:
        if any(explains(report, status) for status in end.failures):
            return report.summary
    ended = f"the command ended with status {_command_status(finished)}"
    if not end.command_status:
        ended = f"a hook ended with status {end.failures[-1]}"
    if cause is None:
        return f"{ended}; no report names a cause"
    return f"{cause.title}: {cause.text or cause.where or ended}"


def with_others(record: JobRecord, others: Sequence[Report]) -> JobRecord:
    """`record` with the verdict of the worst of `others`, which it was not made of, if it is worse."""
    worst = worst_verdict(others) if others else None
    if worst is None or rank(worst) >= rank(record.verdict):
        return record
    leading = leading_report(others)
    summary = leading.summary if leading is not None else record.summary
    return replace(record, verdict=worst, summary=summary, cause=None)


def about_of_job(job: JobEnvironment) -> About:
    """What the variables of `job` say of it."""
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
