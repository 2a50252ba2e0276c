# SPDX-License-Identifier: Apache-2.0
"""Acts on files and the agent: a job's record and reports, read and published."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnd, JobEnvironment, explains, worst_verdict
from ci_doctor.buildkite.publish import (
    Annotation,
    PublishedJob,
    ShowStep,
    artifact_folder,
    one_line_cause,
)
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.cause import Cause, cause_of_report, diagnosed_cause, for_record
from ci_doctor.model.facts.build import JOB_FILE, EarlierAttempt, JobRecord
from ci_doctor.model.outcome import CANCELLED, About, Report, Verdict, is_green, rank
from ci_doctor.render.formatting import TIMED_OUT
from ci_doctor.render.step_annotation import (
    StepResult,
    is_worth_showing,
    leading_first,
    leading_report,
    render,
    short_cause,
    step_cause,
    step_style,
)
from ci_doctor.session.delivery import read_reports
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.secrets.redaction import Redactor
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
        reports=tuple(
            str(folder.relative_to(finished.root))
            for folder, _ in finished.reports
            if finished.root
        ),
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
        leading = leading_report(reports)
        return "ci-doctor made no report in this job" if leading is None else leading.summary
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
    cause = None
    if record.verdict != Verdict.PASS:
        cause = step_cause(record.cause, leading_first(reports))
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


PAGE = "report.html"
# Less than the hook allows itself, so that what was left out is named. A cancelled job has its agent's grace
# period for all its hooks, which is 10 s unless the agent's configuration says otherwise
# (https://buildkite.com/docs/agent/self-hosted/configure#cancel-grace-period).
_BUDGET_S = 100.0
_CANCELLED_BUDGET_S = 6.0


def budget_s(end: JobEnd | None) -> float:
    """How many seconds publishing may take in a job that ended so."""
    if end is not None and end.is_cancelled:
        return _CANCELLED_BUDGET_S
    return _BUDGET_S


def published_job(
    reports: Sequence[tuple[Path, Report]],
    end: JobEnd | None,
    record: JobRecord | None,
    root: Path | None,
) -> PublishedJob:
    """What a job publishes, its leading report first; writes that one's page if it has none."""
    leading = leading_report([report for _, report in reports])
    ordered = sorted(reports, key=lambda each: each[1] is not leading)
    for directory, report in ordered[:1]:
        _write_page(directory, report)
    published = PublishedJob.of(ordered, end)
    if record is not None:
        published = replace(published, verdict=record.verdict)
    if root is not None and (root / JOB_FILE).is_file():
        published = replace(published, record=root / JOB_FILE)
    return published


def _write_page(directory: Path, report: Report) -> None:
    """Write `report.html`, to which the annotation links; without it there is no link."""
    from ci_doctor.render import html

    page = directory / PAGE
    try:
        if not page.exists():
            write_atomically(page, html.render(report).encode())
    except (OSError, CiDoctorError):
        return


def step_shown(
    several: Sequence[tuple[Path, Report]],
    job: JobEnvironment,
    end: JobEnd | None,
    record: JobRecord | None,
) -> ShowStep:
    """What shows a job with `several` reports, once its earlier attempts are known."""
    in_time = sorted(several, key=lambda each: each[1].started_at)
    reports = tuple(report for _, report in in_time)
    if record is None:
        # The command of the step may hold one of the job's secrets.
        redactor = Redactor.from_environment(os.environ)
        known = FinishedJob(job=job, about=about_of_job(job), end=end, reports=in_time)
        record = redactor.value(record_of(known))
    step = StepResult(record=record, reports=reports, page=_page(in_time))
    said = said_of(record, reports, job)

    def show(earlier: tuple[EarlierAttempt, ...]) -> Annotation | None:
        shown = replace(step, earlier=earlier)
        if not is_worth_showing(shown):
            return None
        without_page = render(replace(shown, page=None)) if shown.page else None
        return Annotation(
            body=render(shown), style=step_style(shown), said=said, without_page=without_page
        )

    return show


def _page(several: Sequence[tuple[Path, Report]]) -> str | None:
    """The leading report's page on the Artifacts tab."""
    leading = leading_report([report for _, report in several])
    for directory, report in several:
        if report is leading and (directory / PAGE).is_file():
            return f"{artifact_folder(directory)}/{PAGE}"
    return None


def publish_all(
    reports: Sequence[tuple[Path, Report]],
    *,
    annotate: bool,
    at_end: bool = False,
    record: "JobRecord | None" = None,
    root: Path | None = None,
) -> list[str]:
    """Publish on Buildkite, and return a line for each thing that did not work.

    `at_end`: the job is over, and its status counts too. `record` is what is known of the job then;
    its file lies in `root`, where it is published from. Never raises for the agent's failures.
    """
    from ci_doctor.buildkite.agent import Agent
    from ci_doctor.buildkite.job import JobEnd, JobEnvironment, work_of
    from ci_doctor.buildkite.publish import publish
    from ci_doctor.session.report_directory import published_elsewhere

    job = JobEnvironment.from_environ(os.environ)
    if job is not None:
        job = replace(job, work=work_of(os.environ))
    end = JobEnd.from_environ(os.environ) if at_end else None
    agent = Agent.find(os.environ, budget_s=budget_s(end))
    if job is None or agent is None:
        # Not a word in a job whose commands made no report.
        if at_end and not reports:
            return []
        return [
            "ci-doctor: not a Buildkite job, or no buildkite-agent on PATH: nothing is published"
        ]
    elsewhere = published_elsewhere(job.job_id, [folder for folder, _ in reports])
    # One that is gone is none, and a broken one has been named by the call that published it.
    others = [each for each in read_reports(elsewhere, broken=[]) if each[0] in elsewhere]
    if record is not None:
        record = with_others(record, [report for _, report in others])
    published = published_job(reports, end, record, root)
    show = step_shown([*reports, *others], job, end, record) if annotate else None
    results = publish(published, job, agent, show)
    return [f"ci-doctor: {result.message}" for result in results if not result.ok]
