# SPDX-License-Identifier: Apache-2.0
"""Pure. One job of a build, from its files and from what Buildkite's API says of it."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.build.collect import JobFiles, ReportFile
from ci_doctor.decodable import decodable
from ci_doctor.model.cause import Cause, diagnosed_causes, for_record
from ci_doctor.model.facts.build import JobFacts, JobRecord
from ci_doctor.model.outcome import (
    MISSING,
    NO_VERDICT,
    WORST_FIRST,
    About,
    CaseOutcome,
    Report,
    Severity,
    Verdict,
    is_green,
    rank,
    worst,
)
from ci_doctor.model.words import known_moment_text, parse_moment

# --- a job as Buildkite's REST API describes it, for what no report can know ---


class ApiJob(Struct, frozen=True, kw_only=True):
    """One job of a build (https://buildkite.com/docs/apis/rest-api/builds).

    job: its id. attempt: from 0. queued_s: seconds from runnable to started. began_at, ended_at:
    RFC 3339 in UTC. state: the API's word, such as `failed` or `broken`. What the API does not say
    is None.
    """

    job: str
    step_key: str | None = None
    label: str | None = None
    parallel_index: int | None = None
    attempt: int = 0
    state: str | None = None
    exit_status: int | None = None
    is_soft_failed: bool = False
    queued_s: float | None = None
    began_at: str | None = None
    ended_at: str | None = None
    agent: str | None = None
    queue: str | None = None
    url: str | None = None


# --- times of jobs, which agents with clocks of their own have written down ---


def in_utc(text: str | None) -> str | None:
    """An RFC 3339 time in UTC, to the millisecond; None if `text` is none."""
    return known_moment_text(parse_moment(text))


def duration_s(job: JobFacts) -> float | None:
    """Wall clock of a job; None if a time is unknown."""
    began = parse_moment(job.began_at)
    ended = parse_moment(job.ended_at)
    if began is None or ended is None:
        return None
    return round(ended - began, 3)


# --- the jobs in a build as the REST API returns it, with queue times and attempts ---
# https://buildkite.com/docs/apis/rest-api/builds#get-a-build


class _Agent(Struct, frozen=True):
    name: str | None = None
    meta_data: list[str] | None = None


class _Job(Struct, frozen=True):
    id: str
    type: str | None = None
    name: str | None = None
    step_key: str | None = None
    state: str | None = None
    exit_status: int | None = None
    soft_failed: bool | None = None
    web_url: str | None = None
    agent: _Agent | None = None
    agent_query_rules: list[str] | None = None
    runnable_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    retried_in_job_id: str | None = None
    retries_count: int | None = None
    parallel_group_index: int | None = None


def jobs_of(body: bytes) -> tuple[ApiJob, ...]:
    """The command jobs of a build; waits, blocks, inputs and triggers are left out.

    Raises ValueError if `body` is no such build.
    """
    try:
        everything = msgspec.json.decode(body, type=decodable(dict[str, Any]))["jobs"]
        # `script` is a command step's: https://buildkite.com/docs/apis/rest-api/jobs. A block step's entry has no id of
        # a job, and may have any form.
        scripts = msgspec.convert(
            [each for each in everything if each.get("type") == "script"], decodable(list[_Job])
        )
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the answer is no build: {error}") from error
    attempts = _attempts(scripts)
    return tuple(_api_job(job, attempts[job.id]) for job in scripts)


def _attempts(jobs: list[_Job]) -> dict[str, int]:
    """The attempt of each job, from 0: a retried job names the one that took its place."""
    earlier = {job.retried_in_job_id: job.id for job in jobs if job.retried_in_job_id}
    attempts = {}
    for job in jobs:
        # The jobs before it; those that name each other in a circle are counted once.
        chain: list[str] = []
        before = earlier.get(job.id)
        while before is not None and before not in chain:
            chain.append(before)
            before = earlier.get(before)
        # Without retried jobs in the answer the count is all that is known.
        attempts[job.id] = len(chain) or job.retries_count or 0
    return attempts


def _api_job(job: _Job, attempt: int) -> ApiJob:
    agent = job.agent or _Agent()
    return ApiJob(
        job=job.id,
        step_key=job.step_key or None,
        label=job.name or None,
        parallel_index=job.parallel_group_index,
        attempt=attempt,
        state=job.state,
        exit_status=job.exit_status,
        is_soft_failed=bool(job.soft_failed),
        queued_s=_seconds(job.runnable_at, job.started_at),
        began_at=in_utc(job.started_at),
        ended_at=in_utc(job.finished_at),
        agent=agent.name,
        queue=_queue(agent.meta_data) or _queue(job.agent_query_rules),
        url=job.web_url,
    )


def _queue(words: list[str] | None) -> str | None:
    """The queue in `queue=NAME`, as an agent's tags and a step's rules have it."""
    for word in words or []:
        if word.startswith("queue="):
            return word.removeprefix("queue=")
    return None


def _seconds(runnable_at: str | None, started_at: str | None) -> float | None:
    """None if one is unknown, or if they are in the wrong order."""
    begin = parse_moment(runnable_at)
    end = parse_moment(started_at)
    if begin is None or end is None or end < begin:
        return None
    return round(end - begin, 3)


# --- what a job's state in Buildkite's API says of its report ---
# https://buildkite.com/docs/pipelines/configure/defining-steps#job-states

# There is no run that could have left a report.
NEVER_RAN: Final = frozenset(
    {
        "broken",
        "skipped",
        "pending",
        "waiting",
        "waiting_failed",
        "blocked",
        "blocked_failed",
        "unblocked",
        "unblocked_failed",
    }
)
# The run may still leave a report.
_NOT_ENDED: Final = frozenset(
    {
        "limiting",
        "limited",
        "platform_limiting",
        "platform_limited",
        "scheduled",
        "assigned",
        "accepted",
        "running",
        "canceling",
        "timing_out",
    }
)
# Somebody stopped the job; Buildkite does so too, with a newer build.
_CANCELLED: Final = frozenset({"canceled", "canceling"})
# Buildkite, or a person, ended the job.
_STOPPED: Final = frozenset({"canceled", "timed_out", "expired"})


def has_failed(state: str | None) -> bool:
    """Whether the job has ended, and did not pass; so has one in a state that is new to us."""
    return state not in {None, "passed", *NEVER_RAN, *_NOT_ENDED}


# --- the verdict of a job by its reports, and of a build by its jobs ---

FAILURES: Final = frozenset({Verdict.REGRESSION, Verdict.FAILED})


def known(word: str) -> str:
    """`word`, or `error` for one that this version does not know."""
    return word if word in WORST_FIRST else NO_VERDICT


def verdict_of_reports(reports: Iterable[Report]) -> str:
    """The worst verdict of those that judged something, or that failed without a verdict."""
    words = []
    for report in reports:
        if report.verdict is not None:
            words.append(str(report.verdict))
        elif _has_failed(report):
            words.append(NO_VERDICT)
    return worst(words)


def _has_failed(report: Report) -> bool:
    """`run` hands on its command's status without a verdict, and a diagnosis has findings alone."""
    if report.error is not None or report.exit_code != 0:
        return True
    return any(finding.severity is Severity.ERROR for finding in report.findings)


def verdict_of_build(words: Iterable[str]) -> Verdict:
    """The verdict of a build of steps that ended so; `void` without any, and where none is."""
    word = worst(words)
    if word in {NO_VERDICT, MISSING} or word not in WORST_FIRST:
        return Verdict.VOID
    return Verdict(word)


def case_outcome(word: str) -> CaseOutcome:
    """How a test case with this verdict ended."""
    if is_green(word):
        return CaseOutcome.PASSED
    return CaseOutcome.FAILED if word in FAILURES else CaseOutcome.ERROR


# --- when a job began and ended, by whoever knows it best ---


def times_of(files: JobFiles, api: ApiJob | None) -> tuple[str | None, str | None]:
    """The API's times, which hold the checkout too, else the record's, else those of the reports.

    RFC 3339 in UTC; None if unknown. An end before the begin is none: a clock was set in between.
    """
    if files.record is not None:
        record = files.record.record
        began, ended = in_utc(record.began_at), in_utc(record.ended_at)
    else:
        # From the begin of the first report to the last end of one.
        runs = [
            (begin, begin + file.report.duration_s)
            for file in files.reports
            if (begin := parse_moment(file.report.started_at)) is not None
        ]
        began = known_moment_text(min((begin for begin, _ in runs), default=None))
        ended = known_moment_text(max((end for _, end in runs), default=None))
    if api is not None:
        began = in_utc(api.began_at) or began
        ended = in_utc(api.ended_at) or ended
    first, last = parse_moment(began), parse_moment(ended)
    if first is not None and last is not None and last < first:
        ended = None
    return began, ended


# --- the verdict of one job, from its record, its reports and Buildkite's own state of it ---


def verdict_of_files(files: JobFiles) -> str:
    """The record's verdict; without one, or if the record is greener than a report, the reports'.

    A record may be less bad than a report: it knows of a cause outside the change.
    """
    reports = [file.report for file in files.reports]
    if files.record is None:
        return verdict_of_reports(reports)
    word = verdict_of_record(files.record.record, reports)
    judging = _judging(reports)
    if is_green(word) and judging:
        return worst([word, verdict_of_reports(judging)])
    return word


def verdict_of_record(record: JobRecord, reports: Sequence[Report]) -> str:
    """The verdict that a record has; `pass` for a command that ended with 0 and that nobody judged.

    Such a record is `void`, as ci-doctor has proven nothing. The step has passed all the same: a
    build is not red because its linter needs no ci-doctor. A green one of a job that did not end
    with 0 is not green: `--fail-on-flaky` ends a `flaky` with 7.
    """
    word = known(record.verdict)
    if is_green(word):
        if record.is_cancelled or record.is_timed_out or record.exit_status is None:
            return NO_VERDICT
        return word if record.exit_status == 0 else str(Verdict.FAILED)
    has_passed = record.command_status == 0 and record.exit_status == 0
    has_all = len(reports) >= len(record.reports)
    if word == Verdict.VOID and has_passed and has_all and not _judging(reports):
        return str(Verdict.PASS)
    return word


def with_state(word: str, api: ApiJob | None) -> str:
    """The verdict, or a worse one if the files are greener than the job's end on Buildkite."""
    if api is None or not is_green(word) or api.is_soft_failed:
        return word
    if api.state in _STOPPED:
        return NO_VERDICT
    return str(Verdict.FAILED) if has_failed(api.state) else word


def _judging(reports: Sequence[Report]) -> list[Report]:
    """Those that judge something, or that an error ended."""
    return [each for each in reports if each.verdict is not None or each.error is not None]


# --- one job of a build, from its files and from what Buildkite's API says of it ---

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
        return self.is_soft_failed or (not self.is_reported and self.state == "passed")


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
        cancelled=api.state in _CANCELLED,
        soft_failed=api.is_soft_failed,
        url=_url(api, about, api.job),
    )
    return JobAttempt(
        facts=facts,
        about=about,
        label=api.label,
        has_failed=has_failed(api.state),
        reason=CANCELLED if facts.cancelled else reason,
        state=api.state,
        is_soft_failed=api.is_soft_failed,
    )


def _facts(files: JobFiles, api: ApiJob | None) -> JobFacts:
    about = files.about
    began_at, ended_at = times_of(files, api)
    verdict = with_state(verdict_of_files(files), api)
    facts = JobFacts(
        job=files.job,
        attempt=about.attempt or 0,
        began_at=began_at,
        ended_at=ended_at,
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
    by_api = api is not None and api.state in _CANCELLED
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
