# SPDX-License-Identifier: Apache-2.0
"""Pure. The record of a job at its end, for the report of its build."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.job_end import JobEnd, explains, worst_verdict
from ci_doctor.model.about import About
from ci_doctor.model.cause import Cause, for_record
from ci_doctor.model.job_record import JobRecord
from ci_doctor.model.report import Report
from ci_doctor.model.report_cause import cause_of_report, diagnosed_cause
from ci_doctor.model.verdict import is_green


class FinishedJob(Struct, frozen=True, kw_only=True):
    """What the plugin's last hook knows of a job.

    reports: with their directories, below `root`. command_status: of the command before a hook of
    ours changed it, None if none kept it. began_at: RFC 3339, None if nobody knows.
    """

    job: JobEnvironment
    about: About
    end: JobEnd
    root: Path
    reports: Sequence[tuple[Path, Report]]
    command_status: int | None
    began_at: str | None
    ended_at: str
    tool_version: str


def record_of(finished: FinishedJob) -> JobRecord:
    """The record; it still holds secrets if its reports do."""
    reports = [report for _, report in finished.reports]
    end = finished.end
    verdict = worst_verdict(reports, end)
    cause = None if is_green(verdict) else job_cause(reports, end)
    return JobRecord(
        tool_version=finished.tool_version,
        about=finished.about,
        label=finished.job.label,
        parallel_count=finished.job.parallel_count,
        command=finished.job.command,
        work=finished.job.work,
        began_at=finished.began_at,
        ended_at=finished.ended_at,
        command_status=_command_status(finished),
        exit_status=_exit_status(end),
        is_cancelled=end.is_cancelled,
        is_timed_out=end.is_timed_out,
        verdict=verdict,
        summary=_summary(finished, verdict, cause),
        cause=cause,
        reports=tuple(str(folder.relative_to(finished.root)) for folder, _ in finished.reports),
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
    return finished.end.command_status


def _exit_status(end: JobEnd) -> int | None:
    """What the job ends with: the status of the last hook if that failed, else of the command."""
    if end.failures:
        # The agent ends with 255 for a command that a signal ended (os.Exit(-1)).
        return end.failures[-1] % 256
    return 0 if end.has_run else None


def _summary(finished: FinishedJob, verdict: str, cause: Cause | None) -> str:
    end = finished.end
    reports = [report for _, report in finished.reports]
    if end.is_timed_out:
        return "the job ran into its time limit"
    if end.is_cancelled:
        return "the job was cancelled"
    if end.failures:
        return _of_failure(reports, finished, cause)
    if not end.has_run:
        return "the job ended before its command"
    for report in reports:
        if report.verdict == verdict:
            return report.summary
    return "the command passed, and no report judges it"


def _of_failure(reports: Sequence[Report], finished: FinishedJob, cause: Cause | None) -> str:
    end = finished.end
    for report in reports:
        if any(explains(report, status) for status in end.failures):
            return report.summary
    ended = f"the command ended with status {_command_status(finished)}"
    if not end.command_status:
        ended = f"a hook ended with status {end.failures[-1]}"
    if cause is None:
        return f"{ended}; no report names a cause"
    return f"{cause.title}: {cause.text or cause.where or ended}"
