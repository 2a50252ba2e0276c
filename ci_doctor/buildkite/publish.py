# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: publishes one job as an annotation, meta-data and artifacts."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.job import JobEnd, JobEnvironment, worst_verdict
from ci_doctor.decodable import decodable
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.facts.build import JOB_FILE, EarlierAttempt
from ci_doctor.model.outcome import Report
from ci_doctor.model.words import shortened
from ci_doctor.system.files.access import write_atomically

# --- what the attempts of a job have annotated, as the build's meta-data keeps it ---
# An annotation outlives the job that made it. So each attempt keeps its context, and in a few words
# what it said, where a retry on any agent reads it.

# "larger than 1 kilobyte … is discouraged"
# (https://buildkite.com/docs/pipelines/configure/build-meta-data).
HISTORY_BYTES = 1000
CAUSE_CHARACTERS = 120
_SHORT_CAUSE = 40


class Published(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who made an annotation: the attempt, from 0, of a job with this digest of its command.

    said: what the annotation says of this attempt. before: what the attempts before it said, the
    oldest first.
    """

    attempt: int
    command: str
    said: EarlierAttempt
    before: tuple[EarlierAttempt, ...] = ()


class AttemptHistory(Struct, frozen=True, kw_only=True):
    """The annotations under a job's key, by context: its own, those of its earlier attempts.

    Jobs of a matrix that nothing tells apart are here too.
    """

    published: dict[str, Published]

    def has_later(self, job: JobEnvironment) -> bool:
        """Whether a later attempt has published: this one was given up as lost.

        One that followed another job, or that ran another command, is of a sibling in a matrix.
        """
        return any(_follows(each, job) for each in self.published.values())

    def context(self, job: JobEnvironment) -> str:
        """Where the annotation of `job` stands: in the place of its earlier attempt's, if any."""
        usual = job.step_context()
        own = self._own(job)
        ours = [context for context in own if context.startswith(usual)]
        if ours:
            return max(ours, key=lambda context: own[context].attempt)
        by_command = job.sibling_context(same_command=False)
        for free in (usual, by_command):
            if free not in self.published:
                return free
        return job.sibling_context(same_command=True)

    def stale(self, job: JobEnvironment) -> list[str]:
        """The contexts of the earlier attempts of `job`."""
        return [
            context for context, each in self._own(job).items() if each.attempt < job.retry_count
        ]

    def earlier(self, job: JobEnvironment) -> tuple[EarlierAttempt, ...]:
        """What is known of the earlier attempts of `job`, the oldest first."""
        known: dict[int, EarlierAttempt] = {}
        for each in self._own(job).values():
            for attempt in (*each.before, each.said):
                if attempt.attempt < job.retry_count:
                    known[attempt.attempt] = attempt
        return tuple(known[number] for number in sorted(known))

    def _own(self, job: JobEnvironment) -> dict[str, Published]:
        """What this very job and its earlier attempts have published.

        In a matrix the command tells the jobs apart. If that is the same too, nobody knows which job is a retry
        of which one: then what the others have published stays.
        """
        reached = {
            context: each
            for context, each in self.published.items()
            if each.attempt <= job.retry_count
        }
        digest = job.command_digest()
        same = {context: each for context, each in reached.items() if each.command == digest}
        for own in (reached, same):
            if not _are_siblings(own, job):
                return own
        return {context: each for context, each in same.items() if each.said.job == job.job_id}


def _follows(later: Published, job: JobEnvironment) -> bool:
    """Whether `later` may be of a retry of `job`."""
    if later.attempt <= job.retry_count or later.command != job.command_digest():
        return False
    replaced = [each.job for each in later.before if each.attempt == job.retry_count]
    return not replaced or job.job_id in replaced


def _are_siblings(published: Mapping[str, Published], job: JobEnvironment) -> bool:
    """Whether two jobs, `job` among them, claim the same attempt."""
    jobs = {(each.attempt, each.command, each.said.job) for each in published.values()}
    jobs.add((job.retry_count, job.command_digest(), job.job_id))
    return len(jobs) > len({attempt for attempt, _, _ in jobs})


def decoded(text: str) -> AttemptHistory | None:
    """The history of `text`; None if that is somebody else's value."""
    try:
        return AttemptHistory(
            published=msgspec.json.decode(text, type=decodable(dict[str, Published]))
        )
    except msgspec.DecodeError:
        return None


def encoded(published: Mapping[str, Published]) -> str:
    """`published` as JSON, in at most 1 kB if that can be done without losing a context.

    The causes are shortened and the oldest attempts left out first, then all earlier attempts.
    """
    shown = dict(published)
    for shorten in (_with_the_last_only, _without_attempts):
        text = msgspec.json.encode(shown).decode()
        if len(text.encode()) <= HISTORY_BYTES:
            return text
        shown = {context: shorten(each) for context, each in shown.items()}
    return msgspec.json.encode(shown).decode()


def one_line_cause(text: str | None, limit: int = CAUSE_CHARACTERS) -> str | None:
    """`text` as a line of at most `limit` characters; None for nothing."""
    line = " ".join((text or "")[: 4 * limit].split())
    if not line:
        return None
    return shortened(line, limit)


def _with_the_last_only(published: Published) -> Published:
    before = [
        replace(each, cause=one_line_cause(each.cause, _SHORT_CAUSE))
        for each in (*published.before[-2:], published.said)
    ]
    return replace(published, said=before[-1], before=tuple(before[:-1]))


def _without_attempts(published: Published) -> Published:
    return replace(published, before=())


def with_annotation(
    history: AttemptHistory, context: str, job: JobEnvironment, said: EarlierAttempt
) -> dict[str, Published]:
    """What is published once `job` has put its annotation at `context`."""
    before: Sequence[EarlierAttempt] = history.earlier(job)
    own = Published(
        attempt=job.retry_count, command=job.command_digest(), said=said, before=tuple(before)
    )
    return {**history.published, context: own}


# --- a job's annotation, in place of those of its earlier attempts ---

_REPLACED = (
    "An earlier attempt of this job said something here. It was retried: see the last attempt."
)
# From 1 (last) to 10 (first); 3 is Buildkite's own. A passing retry must not keep its place on top.
_PRIORITIES = {"error": 6, "warning": 5}
_USUAL_PRIORITY = 3


class Annotation(Struct, frozen=True, kw_only=True):
    """Markdown, and `success`, `info`, `warning` or `error`.

    said: the same in a few words, for the attempts after this one. without_page: the Markdown
    without its link to an artifact; None if there is none in it.
    """

    body: str
    style: str
    said: EarlierAttempt
    without_page: str | None = None


# From what is known of the earlier attempts to the annotation; None if there is nothing to show.
ShowStep = Callable[[tuple[EarlierAttempt, ...]], Annotation | None]


class AnnotationResult(Struct, frozen=True, kw_only=True):
    """What became of a job's annotation: `annotation` stands at `context` now, if it is not None.

    results: of the annotation, and of whatever else did not work.
    """

    results: tuple[AgentResult, ...]
    annotation: Annotation | None = None
    context: str = ""


def read_history(job: JobEnvironment, agent: Agent) -> tuple[AttemptHistory, AgentResult]:
    """What the attempts of this job have annotated; what cannot be read counts as unknown."""
    key = job.annotations_key()
    text, result = agent.get_metadata(key, default="{}")
    history = decoded(text)
    if history is None:
        message = (
            f"meta-data {key} is no history of annotations: that of an earlier attempt may stay"
        )
        return AttemptHistory(published={}), AgentResult(ok=False, message=message)
    return history, result


def annotate_job(
    show: ShowStep | None,
    history: AttemptHistory,
    read: AgentResult,
    job: JobEnvironment,
    agent: Agent,
) -> AnnotationResult:
    """Annotate the build as `show` says, and remove what earlier attempts left elsewhere.

    With `show` None nothing is annotated, and all that earlier attempts left is removed. `read`:
    how reading the history ended. A failure is a result.
    """
    others = []
    earlier = history.earlier(job)
    # A first attempt has no earlier one, whatever the agent cannot tell.
    if not read.ok and job.retry_count:
        others.append(read)
        earlier = (EarlierAttempt(attempt=job.retry_count - 1),)
    annotation = show(earlier) if show else None
    published = dict(history.published)
    context = history.context(job)
    results = []
    if annotation is not None:
        published = with_annotation(history, context, job, annotation.said)
        # Before the annotation: a job that is cut off between the two leaves none behind unnamed.
        others.append(_keep(published, job, agent))
        results.append(put(annotation.body, annotation, context, agent))
    stale = [each for each in history.stale(job) if annotation is None or each != context]
    others += _without(stale, published, job, agent)
    failed = tuple(result for result in others if not result.ok)
    return AnnotationResult(results=(*results, *failed), annotation=annotation, context=context)


def put(body: str, annotation: Annotation, context: str, agent: Agent) -> AgentResult:
    """Put `body` at `context`, in the style of `annotation` and in its place on the page."""
    priority = _PRIORITIES.get(annotation.style, _USUAL_PRIORITY)
    return agent.annotate(body, style=annotation.style, context=context, priority=priority)


def _without(
    stale: list[str], published: dict[str, Published], job: JobEnvironment, agent: Agent
) -> list[AgentResult]:
    """Remove the annotations at `stale`, and forget those that are gone."""
    if not stale:
        return []
    results = []
    for context in stale:
        removed = _remove(context, agent)
        results.append(removed)
        if removed.ok:
            del published[context]
    results.append(_keep(published, job, agent))
    return results


def _keep(published: Mapping[str, Published], job: JobEnvironment, agent: Agent) -> AgentResult:
    return agent.set_metadata(job.annotations_key(), encoded(published))


def _remove(context: str, agent: Agent) -> AgentResult:
    removed = agent.remove_annotation(context)
    if removed is not None and removed.ok:
        return removed
    # Agents before 3.28 cannot remove one, and those before 3.55 none with a full stop in its
    # context. They can still take the red away.
    return agent.annotate(_REPLACED, style="info", context=context)


# --- those of a report that are uploaded, JUnit files under the names of their job ---

# Far below the 5000 artifacts that a job may have; a problem names the files left out.
FILES_PER_REPORT = 200
BYTES_PER_FILE = 100 * 1024 * 1024

_FIRST_FILES = (JOB_FILE, "report.json", "report.html", "report.md")
# As much as one call of the agent uploads in a moment.
_SMALL_FILES = 50
_SMALL_BYTES = 10 * 1024 * 1024


def files_of(directory: Path, job: JobEnvironment) -> tuple[dict[Path, int], list[str]]:
    """The files of the report in `directory` (absolute) to upload with their bytes, the report first.

    And what is wrong with some of them.
    """
    renamed = {
        "junit.xml": job.junit_artifact_name(),
        "attempts.xml": job.attempts_artifact_name(),
    }
    problems = []
    copied = set()
    for name, new_name in renamed.items():
        problem = _copy(directory, name, new_name)
        if problem is not None:
            problems.append(problem)
        # A name that JUnit's readers do not look for twice.
        elif (directory / new_name).is_file():
            copied.add(directory / name)
    files = {path: size for path, size in _regular_files(directory) if path not in copied}
    large = sorted(path for path, size in files.items() if size > BYTES_PER_FILE)
    ordered = sorted(
        files.keys() - set(large),
        key=lambda path: (path.parent != directory, not _is_first(path), path),
    )
    left_out = [*large, *ordered[FILES_PER_REPORT:]]
    if left_out:
        size = f"{BYTES_PER_FILE // 1024**2} MiB"
        limits = f"more than {FILES_PER_REPORT} files, or larger than {size}"
        listed = ", ".join(str(path.relative_to(directory)) for path in left_out[:10])
        problems.append(f"not uploaded from {directory}: {listed} ({limits})")
    return {path: files[path] for path in ordered[:FILES_PER_REPORT]}, problems


def _is_first(path: Path) -> bool:
    """Whether it is what a reader or `build merge` needs."""
    return path.name in _FIRST_FILES


def _copy(directory: Path, name: str, new_name: str) -> str | None:
    """Copy a file beside itself; a sentence if that fails, None if it is not there."""
    source = directory / name
    try:
        if source.is_file():
            write_atomically(directory / new_name, source.read_bytes())
    except (OSError, CiDoctorError) as error:
        return f"{name} keeps its name: {error}"
    return None


def _regular_files(directory: Path) -> Iterator[tuple[Path, int]]:
    """Each regular file with its size in bytes."""
    # os.walk passes over what it may not read, and follows no links.
    for folder, _, names in os.walk(directory):
        for name in names:
            # A name with a leading dot is a file that is being written.
            if name.startswith("."):
                continue
            path = Path(folder, name)
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status.st_size


# --- publishes one job as an annotation, meta-data and artifacts ---

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
    # By the top of their Artifacts tab, which is two levels up: `<job id>/<command>`, as `artifact_folder` says.
    files: dict[Path, dict[Path, int]] = {}
    results = []
    if published.record is not None:
        record = published.record.absolute()
        files[record.parent.parent] = {record: 0}
    for directory in (each.absolute() for each, _ in published.reports):
        of_report, problems = files_of(directory, job)
        files.setdefault(directory.parent.parent, {}).update(of_report)
        results += [AgentResult(ok=False, message=problem) for problem in problems]
    for base, sizes in files.items():
        first = [path for path in sizes if _is_first(path)]
        rest = [path for path in sizes if not _is_first(path)]
        calls = [[*first, *rest]]
        if len(rest) > _SMALL_FILES or sum(sizes[path] for path in rest) > _SMALL_BYTES:
            # What is large waits until all readers have what they need.
            calls = [first, rest]
        results += [agent.upload_artifacts(paths, base) for paths in calls if paths]
    return results


def _take_link_back(annotated: AnnotationResult, agent: Agent) -> list[AgentResult]:
    """Annotate again without the link to a page that may not be there."""
    annotation = annotated.annotation
    if annotation is None or annotation.without_page is None:
        return []
    return [put(annotation.without_page, annotation, annotated.context, agent)]
