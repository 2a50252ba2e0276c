# SPDX-License-Identifier: Apache-2.0
"""Pure. One job of a build, from its files and from what Buildkite's API says of it."""

import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.build import states
from ci_doctor.build.api_job import ApiJob
from ci_doctor.build.job_files import JobFiles
from ci_doctor.build.job_times import times_of
from ci_doctor.build.job_verdict import verdict_of_files, with_state
from ci_doctor.build.material import ReportFile
from ci_doctor.build.times import in_utc
from ci_doctor.build.verdicts import FAILURES, verdict_of_reports
from ci_doctor.model.about import About
from ci_doctor.model.cause import Cause, diagnosed_causes, for_record
from ci_doctor.model.facts.build import JobFacts
from ci_doctor.model.finding import Severity
from ci_doctor.model.verdict import MISSING, is_green, rank

CANCELLED: Final = "the job was cancelled"
_JOB_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_WEB: Final = re.compile(r"https?://[^\s\"'<>\\]{1,2000}")


class JobAttempt(Struct, frozen=True, kw_only=True):
    """A job as an attempt of its step.

    place: of its files; empty if only the API knows it. has_failed: it ended, and not in green.
    reason: why it failed in words, for a job whose cause is not known. state: the API's word.
    is_soft_failed: the pipeline tolerates its failure.
    """

    facts: JobFacts
    about: About
    place: str = ""
    label: str | None = None
    parallel_count: int | None = None
    command: str | None = None
    work: str | None = None
    cause: Cause | None = None
    has_failed: bool = False
    reason: str = ""
    state: str | None = None
    is_soft_failed: bool = False
    reports: tuple[ReportFile, ...] = ()

    @property
    def is_reported(self) -> bool:
        """Whether a file speaks of this job."""
        return bool(self.place)

    @property
    def is_excused(self) -> bool:
        """Whether the pipeline lets the job fail, or Buildkite says of one without a report that it passed."""
        return self.is_soft_failed or (not self.is_reported and states.has_passed(self.state))


def reported_attempt(files: JobFiles, api: ApiJob | None) -> JobAttempt:
    """The attempt of a job with files."""
    facts = _facts(files, api)
    has_failed = not is_green(facts.verdict)
    attempt = JobAttempt(
        facts=facts,
        about=files.about,
        place=files.place,
        cause=_cause(files) if has_failed and not facts.cancelled else None,
        has_failed=has_failed,
        reason=CANCELLED if facts.cancelled else _reason(files, facts),
        reports=files.reports,
    )
    if files.record is not None:
        record = files.record.record
        attempt = replace(
            attempt,
            label=record.label,
            parallel_count=record.parallel_count,
            command=record.command,
            work=record.work,
        )
    if api is not None:
        attempt = replace(attempt, state=api.state, is_soft_failed=api.is_soft_failed)
    return attempt


def silent_attempt(api: ApiJob, build: About) -> JobAttempt:
    """The attempt of a job that only the API knows; `build` is what the others are about."""
    reason = f"no report; Buildkite says: {api.state or 'state unknown'}"
    if api.exit_status is not None:
        reason += f", exit status {api.exit_status}"
    about = replace(
        build,
        job=api.job,
        step=api.step_key,
        parallel_index=api.parallel_index,
        attempt=api.attempt,
    )
    facts = JobFacts(
        job=api.job,
        attempt=api.attempt,
        queued_s=api.queued_s,
        began_at=in_utc(api.began_at),
        ended_at=in_utc(api.ended_at),
        verdict=MISSING,
        summary=reason,
        exit_status=api.exit_status,
        agent=api.agent,
        queue=api.queue,
        cancelled=states.was_cancelled(api.state),
        soft_failed=api.is_soft_failed,
        url=_url(api, about, api.job),
    )
    return JobAttempt(
        facts=facts,
        about=about,
        label=api.label,
        has_failed=states.has_failed(api.state),
        reason=CANCELLED if facts.cancelled else reason,
        state=api.state,
        is_soft_failed=api.is_soft_failed,
    )


def _facts(files: JobFiles, api: ApiJob | None) -> JobFacts:
    about = files.about
    times = times_of(files, api)
    verdict = with_state(verdict_of_files(files), api)
    facts = JobFacts(
        job=files.job,
        attempt=about.attempt or 0,
        began_at=times.began_at,
        ended_at=times.ended_at,
        verdict=verdict,
        summary=_summary(files, verdict),
        exit_status=None if files.record is None else files.record.record.exit_status,
        agent=about.agent,
        queue=about.queue,
        gpus=len(about.gpus) or None,
        cancelled=_was_cancelled(files, api, verdict),
        soft_failed=api is not None and api.is_soft_failed and not is_green(verdict),
        url=_url(api, about, files.job),
        reports=tuple(sorted({file.folder for file in files.reports})),
    )
    return facts if api is None else _with_api(facts, api)


def _with_api(facts: JobFacts, api: ApiJob) -> JobFacts:
    """`facts` with what only Buildkite knows; its exit status counts the hooks after ours too."""
    status = facts.exit_status if api.exit_status is None else api.exit_status
    return replace(
        facts,
        queued_s=api.queued_s,
        exit_status=status,
        agent=facts.agent or api.agent,
        queue=facts.queue or api.queue,
    )


def _cause(files: JobFiles) -> Cause | None:
    """The record's; without one, the first that a diagnosis has named."""
    if files.record is not None and files.record.record.cause is not None:
        return files.record.record.cause
    named = next(diagnosed_causes([file.report for file in files.reports]), None)
    return None if named is None else for_record(named)


def _was_cancelled(files: JobFiles, api: ApiJob | None, verdict: str) -> bool:
    """Whether somebody stopped the job, and no report of it had judged the change before."""
    record = None if files.record is None else files.record.record
    by_record = record is not None and record.is_cancelled and not record.is_timed_out
    by_api = api is not None and states.was_cancelled(api.state)
    if is_green(verdict) or not (by_record or by_api):
        return False
    return not any(file.report.verdict in FAILURES for file in files.reports)


def _summary(files: JobFiles, verdict: str) -> str:
    if files.record is not None:
        summary = files.record.record.summary
    else:
        leading = min(files.reports, key=lambda each: rank(verdict_of_reports([each.report])))
        summary = leading.report.summary
    if verdict != verdict_of_files(files):
        summary += "; but Buildkite says that the job did not pass"
    return summary


def _reason(files: JobFiles, facts: JobFacts) -> str:
    if files.record is not None and files.record.record.is_timed_out:
        return "the job reached its time limit"
    findings = (finding for file in files.reports for finding in file.report.findings)
    rules = (each.rule for each in findings if each.severity is Severity.ERROR)
    rule = next(rules, None)
    if rule is not None:
        return f"no cause known ({rule})"
    end = "exit status unknown"
    if facts.exit_status is not None:
        end = f"exit status {facts.exit_status}"
    return f"no cause known ({facts.verdict}, {end})"


def _url(api: ApiJob | None, about: About, job: str | None) -> str | None:
    """The job's page; None if its address is none for the web."""
    address = api.url if api is not None else None
    if address is None and about.build_url and job and _JOB_ID.fullmatch(job):
        address = f"{about.build_url}#{job}"
    if address is None or not _WEB.fullmatch(address):
        return None
    return address
