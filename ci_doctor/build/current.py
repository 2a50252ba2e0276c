# SPDX-License-Identifier: Apache-2.0
"""Acts on the agent and the network: merges this build from what its other jobs have uploaded, and publishes it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.build.collect import MOST_BYTES, collect
from ci_doctor.build.findings import outcome_of
from ci_doctor.build.job_attempt import ApiJob, jobs_of
from ci_doctor.build.merge import merge
from ci_doctor.buildkite.agent import SPENT, Agent, AgentResult, ApiTime
from ci_doctor.buildkite.artifacts import (
    PUBLISHED_FOLDER,
    ArtifactDownload,
    BuildAgent,
    DownloadLimits,
)
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.rest import (
    BUILD,
    HttpReply,
    RequestLimits,
    address,
    get,
    missing_variables,
    refusal,
    token,
)
from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.build import JOB_FILE, BuildFacts, JobRecord
from ci_doctor.model.outcome import NO_VERDICT, About, Outcome, Report
from ci_doctor.render import REPORT_FILE, build_annotation, renderer
from ci_doctor.render.formatting import tone
from ci_doctor.system.files.access import make_directory, own_directory, write_atomically

# --- from paths with the records and reports of jobs to the outcome of a merge ---


# What came of a merge, and which build it is about; None if no report says so.
BuildOutcome = tuple[Outcome, About | None]


def merge_build(
    paths: Sequence[Path],
    *,
    expect: Sequence[str] = (),
    api_jobs: Mapping[str, ApiJob] | None = None,
    own_job: str | None = None,
    api_problem: str | None = None,
    problems: Sequence[str] = (),
) -> BuildOutcome:
    """One outcome of the whole build at `paths`, folders and files, with BuildFacts.

    expect: keys, labels or patterns of steps that must have a report. api_jobs: Buildkite's jobs by id; None if nobody
    asked. own_job: the id of the job that merges. api_problem: why they could not be asked for. problems: what
    kept artifacts from being read, as sentences. Raises UsageError for a path that does not exist.
    """
    merged = merge(collect(paths), api_jobs=api_jobs, expect=expect, own_job=own_job)
    outcome = outcome_of(merged, problems, api_problem=api_problem)
    return outcome, None if merged.about == About() else merged.about


# --- which jobs of a build are earlier attempts of the one that merges it ---


def is_own_record(record: JobRecord, job: JobEnvironment) -> bool:
    """Whether `record` is that of `job`, or of an attempt of it.

    A parallel job and a job of the same matrix are others, and their failures count.
    """
    about = record.about
    if not _is_one_place(about.step, about.parallel_index, job):
        return False
    if about.step is None and record.label is None:
        has_no_name = job.step_key is None and job.label is None
        return has_no_name and job.command is not None and record.command == job.command
    return _is_one_label(about.step, record.label, job)


def is_own_api_job(known: ApiJob, job: JobEnvironment) -> bool:
    """Whether Buildkite's API means `job` by `known`, or an attempt of it."""
    if known.job == job.job_id:
        return True
    if not _is_one_place(known.step_key, known.parallel_index, job):
        return False
    return _is_one_label(known.step_key, known.label, job)


def _is_one_place(key: str | None, index: int | None, job: JobEnvironment) -> bool:
    return key == job.step_key and index == job.parallel_job


def _is_one_label(key: str | None, label: str | None, job: JobEnvironment) -> bool:
    """The labels of a matrix hold its values. One that is unknown says nothing beside a key."""
    if label is None or job.label is None:
        return key is not None
    return label == job.label


# --- downloads what the jobs of this build have uploaded for a merge ---

_RECORD_BYTES = 1024 * 1024
_OUR_BEGINNING = b'{"schema":"ci-doctor/'  # without white space
_NO_AGENT = "not a Buildkite job, or no buildkite-agent on PATH: nothing is downloaded"


def download_current(
    environ: Mapping[str, str],
    into: Path,
    *,
    limits: DownloadLimits | None = None,
    api_time: ApiTime | None = None,
) -> tuple[str, ...]:
    """Download the records and reports of all jobs of this build; sentences about what could not be had.

    They lie below the directory `into` under their paths on the Artifacts tab, those with one path in a folder for each
    job. No artifact's path may begin with the name of `into`: see BuildAgent.download_artifacts.

    Those of retried jobs are there too. This job's own are not, nor are those of earlier attempts
    of its step. Never raises for the agent's failures: they are problems, with which files may be missing.
    """
    agent = BuildAgent.find(environ, api_time=api_time)
    job = JobEnvironment.from_environ(environ)
    if agent is None or job is None:
        return (_NO_AGENT,)
    download = ArtifactDownload(agent, into, limits or DownloadLimits(), own_job=job.job_id)
    for name in (JOB_FILE, REPORT_FILE):
        download.fetch(name)
    # Remove what is of other tools, and the files of earlier attempts of this job: it reports on the others.
    own = {of for path, of in download.files.items() if _is_own_step(path, job)}
    for path, of in download.files.items():
        if of in own or _is_of_another_tool(path, of):
            path.unlink(missing_ok=True)
    return tuple(download.problems)


def _is_own_step(path: Path, job: JobEnvironment) -> bool:
    if path.name != JOB_FILE:
        return False
    try:
        record = msgspec.json.decode(_beginning(path, _RECORD_BYTES), type=decodable(JobRecord))
    except (OSError, msgspec.DecodeError, UnicodeError):
        # The merge says so.
        return False
    return is_own_record(record, job)


def _is_of_another_tool(path: Path, job: str) -> bool:
    """Whether this is a file of somebody else's that only has the name of one of ours.

    Only JSON without our schema is. A damaged file of ours lies in a folder with its job's id, was
    cut, or is no JSON any more; the merge then says that it cannot be read.
    """
    if job in path.parts:
        return False
    try:
        content = _beginning(path, MOST_BYTES)
    except OSError:
        return False
    if b'"ci-doctor/' in content or not content.lstrip().startswith((b"{", b"[")):
        return False
    first = b"".join(content[:100].split())
    return not _OUR_BEGINNING.startswith(first)


def _beginning(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)


# --- asks Buildkite's REST API for the jobs of this build, if there is a token ---
# No report knows how long a job waited, nor that one without any report exists. The API does
# (https://buildkite.com/docs/apis/rest-api/builds; scope `read_builds`).

_UNKNOWN = "queue times are unknown"
_STATUSES = {
    401: "the token is not valid",
    403: "the token lacks the scope read_builds",
    404: "the token may not read this pipeline, or there is no such build",
}


class KnownJobs(Struct, frozen=True, kw_only=True):
    """The jobs of the build as the API knows them; None without a token, and if it failed.

    `problem` is a sentence about a failure. No token is none.
    """

    jobs: tuple[ApiJob, ...] | None = None
    problem: str | None = None


def read_jobs(
    environ: Mapping[str, str],
    *,
    limits: RequestLimits | None = None,
    api_time: ApiTime | None = None,
) -> KnownJobs:
    """All jobs of this build, retried ones too. Never raises for the API's failures.

    api_time: what is left of it in this process; without it, for the job.
    """
    secret = token(environ)
    if not secret:
        return KnownJobs()
    missing = missing_variables(environ, BUILD)
    if missing:
        return _failed(f"{', '.join(missing)} is not set")
    refused = refusal(environ)
    if refused is not None:
        return _failed(refused)
    url = f"{address(environ, BUILD)}?include_retried_jobs=true&exclude_pipeline=true"
    headers = {"Authorization": f"Bearer {secret}", "Accept": "application/json"}
    api_time = api_time or ApiTime.of_job(environ)
    if api_time.left_s() <= 0:
        return _failed(f"not asked, as {SPENT}")
    most_s = api_time.left_s()
    with api_time.counted():
        reply = get(url, limits or RequestLimits(), headers=headers, most_s=most_s)
    return _known(reply)


def _known(reply: HttpReply) -> KnownJobs:
    if reply.problem is not None:
        reason = _STATUSES.get(reply.status or 0)
        if reply.status is None:
            return _failed(f"{reply.problem}, and it was given up")
        return _failed(f"{reply.problem}: {reason}" if reason else reply.problem)
    try:
        return KnownJobs(jobs=jobs_of(reply.body))
    except ValueError as error:
        return _failed(str(error))


def _failed(reason: str) -> KnownJobs:
    return KnownJobs(problem=f"Buildkite's REST API: {reason}; {_UNKNOWN}")


# --- merges this build from what its other jobs have uploaded ---


def merge_current(
    environ: Mapping[str, str], expect: tuple[str, ...] = (), *, api_time: ApiTime | None = None
) -> BuildOutcome:
    """The build of the job of `environ`, without this job.

    api_time: what is left of it in this process; without it, for the job. What the agent and the REST API could not do is a finding. Raises UsageError outside a Buildkite job.
    """
    job = JobEnvironment.from_environ(environ)
    if job is None:
        raise UsageError(
            "this is not a Buildkite job, so there is no current build",
            hint="download the artifacts of a build, and name their folder",
        )
    api_time = api_time or ApiTime.of_job(environ)
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(own_directory("build")))
        except OSError as error:
            problem = f"there is no place to download to: {error.strerror or error}"
            return merge_build((), expect=expect, problems=(problem,))
        problems = download_current(environ, folder, api_time=api_time)
        known = read_jobs(environ, api_time=api_time)
        others = None
        if known.jobs is not None:
            # The jobs of other steps by their ids.
            others = {each.job: each for each in known.jobs if not is_own_api_job(each, job)}
        return merge_build(
            (folder,),
            expect=expect,
            api_jobs=others,
            own_job=job.job_id,
            api_problem=known.problem,
            problems=problems,
        )


# --- what later steps of a build read of it: `ci-doctor:verdict` and `ci-doctor:causes` ---

VERDICT_KEY = "ci-doctor:verdict"
CAUSES_KEY = "ci-doctor:causes"
# "not recommended" above 1 kB: https://buildkite.com/docs/pipelines/configure/build-meta-data
_MOST_BYTES = 1000
# In characters, of which JSON makes six bytes each at most: the first cause always fits.
_TITLE = 80
_FINGERPRINT = 64


def causes_json(facts: BuildFacts) -> str:
    """`[{"fingerprint": …, "title": …, "jobs": 3}, …]`, the first ones, in at most 1,000 bytes.

    What does not fit is left out, from the end on. `[]` if no job failed.
    """
    rows: list[dict[str, object]] = []
    text = "[]"
    for cause in facts.causes:
        title = cause.title[:_TITLE]
        fingerprint = cause.fingerprint[:_FINGERPRINT]
        rows.append({"fingerprint": fingerprint, "title": title, "jobs": cause.jobs})
        longer = msgspec.json.encode(rows).decode()
        if len(longer.encode()) > _MOST_BYTES:
            break
        text = longer
    return text


# --- publishes the report of a whole build as annotation, artifacts and meta-data ---
# The annotation needs its page for the link, so the page is uploaded first.

CONTEXT = "ci-doctor:build"
# 10 is first on the page: the whole build stands before its steps, which have 6 at most.
_PRIORITY = 8
# For all calls: an upload that hangs leaves time for the annotation.
BUDGET_S = 180.0
_PAGE = f"{PUBLISHED_FOLDER}/report.html"
_FORMS = ("html", "json")


def publish_build(
    report: Report, environ: Mapping[str, str], *, api_time: ApiTime | None = None
) -> list[str]:
    """Publish the report of a build, and return a line for each thing that did not work.

    `report` is that of `build merge`, without secrets. A part that fails, by whatever error, costs
    that part alone: publishing must not fail a build. All calls of the agent take at most BUDGET_S
    seconds, and what `api_time` has left.
    """
    agent = Agent.find(environ, budget_s=BUDGET_S, api_time=api_time)
    if agent is None:
        return ["not a Buildkite job, or no buildkite-agent on PATH: nothing is published"]
    uploaded = _attempt("the page is not uploaded", lambda: _upload(report, agent))
    page = _PAGE if uploaded.ok else None
    verdict = str(report.verdict or NO_VERDICT)
    parts: dict[str, Callable[[], AgentResult]] = {
        "the annotation is not published": lambda: agent.annotate(
            build_annotation.render(report, page=page),
            style=tone(report),
            context=CONTEXT,
            priority=_PRIORITY,
        ),
        f"{VERDICT_KEY} is not set": lambda: agent.set_metadata(VERDICT_KEY, verdict),
        f"{CAUSES_KEY} is not set": lambda: agent.set_metadata(
            CAUSES_KEY, causes_json(msgspec.convert(report.facts, decodable(BuildFacts)))
        ),
    }
    results = [uploaded, *(_attempt(words, part) for words, part in parts.items())]
    return [result.message for result in results if not result.ok]


def _attempt(consequence: str, part: Callable[[], AgentResult]) -> AgentResult:
    try:
        return part()
    except OSError as error:
        return AgentResult(ok=False, message=f"{consequence}: {error}")
    # A bug of ours: the other parts, and the build, do not depend on this one.
    except Exception as error:  # noqa: BLE001
        message = f"{consequence}: {type(error).__name__}: {error}"
        return AgentResult(ok=False, message=message)


def _upload(report: Report, agent: Agent) -> AgentResult:
    """Upload the page and the report itself below one folder."""
    with own_directory("publish") as folder:
        files = [_written(Path(folder), report, form) for form in _FORMS]
        return agent.upload_artifacts(files, Path(folder))


def _written(folder: Path, report: Report, form: str) -> Path:
    each = renderer(form)
    path = folder / PUBLISHED_FOLDER / (each.file or form)
    make_directory(path.parent)
    write_atomically(path, each.render(report).encode())
    return path
