# SPDX-License-Identifier: Apache-2.0
"""Acts on files: makes of a job what is published of it: the page, the annotation, the time."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnd, JobEnvironment
from ci_doctor.buildkite.publish import Annotation, PublishedJob, ShowStep, artifact_folder
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.earlier_attempt import EarlierAttempt
from ci_doctor.model.job_record import JOB_FILE, JobRecord
from ci_doctor.model.report import Report
from ci_doctor.render.step_annotation import is_worth_showing, render, step_style
from ci_doctor.render.step_cause import leading_report
from ci_doctor.render.step_result import StepResult
from ci_doctor.session.job_record import FinishedJob, about_of_job, record_of, said_of
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

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
