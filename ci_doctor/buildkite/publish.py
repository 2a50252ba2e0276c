# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: publishes one job as an annotation, meta-data and artifacts."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.annotations import (
    AnnotationResult,
    ShowStep,
    annotate_job,
    put,
    read_history,
)
from ci_doctor.buildkite.attempt_history import AttemptHistory
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.job_end import JobEnd, worst_verdict
from ci_doctor.buildkite.report_files import Upload, uploads_of
from ci_doctor.model.outcome import Report

_LATER = "a later attempt of this job has published: its annotation and verdict stay"


class PublishedJob(Struct, frozen=True, kw_only=True):
    """What a job has to publish.

    reports: each with its directory, the one to read first in front. record: the file with the
    job's record, if there is one. verdict: of the job, for the meta-data.
    """

    reports: tuple[tuple[Path, Report], ...]
    verdict: str
    record: Path | None = None

    @classmethod
    def of(
        cls, reports: Sequence[tuple[Path, Report]], end: JobEnd | None = None
    ) -> "PublishedJob":
        """A job with these reports and no record; `end` is None while its command still runs."""
        verdict = worst_verdict([report for _, report in reports], end)
        return cls(reports=tuple(reports), verdict=verdict)


def publish(
    published: PublishedJob, job: JobEnvironment, agent: Agent, show: ShowStep | None
) -> tuple[AgentResult, ...]:
    """Publish a job; one without reports, record and earlier attempts publishes nothing.

    Its annotation, unless `show` is None; its verdict as meta-data; and the files below the
    directories of its reports as artifacts. What an earlier attempt has annotated is replaced or
    removed, also if this one has no report. A failure is a result: nothing is raised for it, and
    the rest is still done.
    """
    has_files = bool(published.reports or published.record)
    history = AttemptHistory(published={})
    read = AgentResult(ok=True, message="")
    # Whether there is an earlier one or not, only the agent can tell; without any, it is not asked.
    if job.retry_count or (show is not None and show(()) is not None):
        history, read = read_history(job, agent)
    elif not has_files:
        return ()
    # What people and later steps read comes first: a job that is cancelled has a few seconds left.
    results: list[AgentResult] = []
    annotated = AnnotationResult(results=())
    if history.has_later(job):
        results.append(AgentResult(ok=False, message=_LATER))
    else:
        annotated = annotate_job(show, history, read, job, agent)
        results += annotated.results
        # A full disk leaves no file, and the job has a verdict all the same.
        if has_files or history.published or annotated.annotation is not None:
            results.append(agent.set_metadata(job.verdict_key(), published.verdict))
    uploaded = _upload(published, job, agent)
    results += uploaded
    if any(not result.ok for result in uploaded):
        results += _take_link_back(annotated, agent)
    return tuple(results)


def artifact_folder(directory: Path) -> str:
    """A report directory on the Artifacts tab: `<job id>/<command>` if the plugin chose it."""
    directory = directory.absolute()
    return str(directory.relative_to(directory.parent.parent))


def _upload(published: PublishedJob, job: JobEnvironment, agent: Agent) -> list[AgentResult]:
    directories = [directory.absolute() for directory, _ in published.reports]
    uploads: list[Upload] = []
    results = []
    if published.record is not None:
        record = published.record.absolute()
        uploads.append(Upload(base=record.parent.parent, first=(record,)))
    for directory in directories:
        upload, problems = uploads_of(directory, job)
        uploads.append(upload)
        results += [AgentResult(ok=False, message=problem) for problem in problems]
    for base in dict.fromkeys(each.base for each in uploads):
        results += _upload_below(base, [each for each in uploads if each.base == base], agent)
    return results


def _upload_below(base: Path, uploads: list[Upload], agent: Agent) -> list[AgentResult]:
    """In one call, but for what is large: that waits until all readers have what they need."""
    at_once: list[Path] = []
    for each in uploads:
        at_once += each.first
    for each in uploads:
        if not each.is_large:
            at_once += each.rest
    results = []
    if at_once:
        results.append(agent.upload_artifacts(at_once, base))
    large = [each for each in uploads if each.is_large]
    results += [agent.upload_artifacts(each.rest, base) for each in large]
    return results


def _take_link_back(annotated: AnnotationResult, agent: Agent) -> list[AgentResult]:
    """Annotate again without the link to a page that may not be there."""
    annotation = annotated.annotation
    if annotation is None or annotation.without_page is None:
        return []
    return [put(annotation.without_page, annotation, annotated.context, agent)]
