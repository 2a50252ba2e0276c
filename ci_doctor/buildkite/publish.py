# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: publishes the reports of one job as annotations, artifacts and meta-data."""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.annotations import Annotation, Attempts, annotate_job, read_attempts
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.buildkite.job_end import JobEnd, worst_verdict
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.report import Report
from ci_doctor.system.files.atomic import write_atomically

# Far below the 5000 artifacts that a job may have; a result names the files left out.
FILES_PER_REPORT = 200
BYTES_PER_FILE = 100 * 1024 * 1024

_FIRST_FILES = ("report.json", "report.md")


def publish(
    reports: Sequence[tuple[Path, Report]],
    job: JobEnvironment,
    agent: Agent,
    annotation: Callable[[Report, str], Annotation] | None,
    *,
    end: JobEnd | None = None,
) -> tuple[AgentResult, ...]:
    """Publish each `(directory, report)`; an empty sequence publishes nothing.

    One annotation per report, `annotation(report, artifact_folder(directory))`, unless that is
    None; the files below each directory as artifacts; and the worst verdict as meta-data, which
    `end` is a part of if the job is over. What an earlier attempt of the job has annotated is
    replaced or removed, also if this one has no report. A failure is a result: nothing is raised
    for it, and the rest is still done.
    """
    attempts = Attempts(published={})
    # Whether there is an earlier one or not, only the agent can tell; without any, it is not asked.
    if job.retry_count or (reports and annotation):
        attempts = read_attempts(job, agent)
    if not reports and not attempts.published:
        return ()
    results: list[AgentResult] = []
    is_last = not attempts.has_later(job)
    if is_last:
        shown = _annotations(reports, job, annotation) if annotation else {}
        results += annotate_job(shown, attempts, job, agent)
    for directory, _ in reports:
        results += _upload(directory.absolute(), job, agent)
    if is_last:
        worst = worst_verdict([report for _, report in reports], end)
        results.append(agent.set_metadata(job.verdict_key(), worst))
    else:
        message = "a later attempt of this job has published: its annotations and verdict stay"
        results.append(AgentResult(ok=False, message=message))
    return tuple(results)


def _annotations(
    reports: Sequence[tuple[Path, Report]],
    job: JobEnvironment,
    annotation: Callable[[Report, str], Annotation],
) -> dict[str, Annotation]:
    """The annotation of each report by its context."""
    annotations = {}
    counts: Counter[str] = Counter()
    for directory, report in reports:
        counts[report.command] += 1
        count = counts[report.command]
        # A second report of one command must not replace the first one's annotation.
        name = report.command if count == 1 else f"{report.command}-{count}"
        context = job.annotation_context(name)
        annotations[context] = annotation(report, artifact_folder(directory))
    return annotations


def artifact_folder(directory: Path) -> str:
    """A report directory on the Artifacts tab: `<job id>/<command>` if the plugin chose it."""
    directory = directory.absolute()
    return str(directory.relative_to(directory.parent.parent))


def _upload(directory: Path, job: JobEnvironment, agent: Agent) -> list[AgentResult]:
    results = []
    copied = _copy_junit(directory, job.junit_artifact_name())
    if copied is not None:
        results.append(copied)
    files, left_out = _files(directory, skip="junit.xml" if copied and copied.ok else None)
    if files:
        # Two levels up: see artifact_folder.
        results.append(agent.upload_artifacts(files, directory.parent.parent))
    if left_out:
        size = f"{BYTES_PER_FILE // 1024**2} MiB"
        limits = f"more than {FILES_PER_REPORT} files, or larger than {size}"
        listed = ", ".join(left_out[:10])
        message = f"not uploaded from {directory}: {listed} ({limits})"
        results.append(AgentResult(ok=False, message=message))
    return results


def _copy_junit(directory: Path, name: str) -> AgentResult | None:
    """Copy junit.xml beside itself under `name`; None if the report has none."""
    source = directory / "junit.xml"
    try:
        if not source.is_file():
            return None
        write_atomically(directory / name, source.read_bytes())
    except (OSError, CiDoctorError) as error:
        return AgentResult(ok=False, message=f"junit.xml keeps its name: {error}")
    return AgentResult(ok=True, message=f"junit.xml copied to {name}")


def _files(directory: Path, *, skip: str | None) -> tuple[list[Path], list[str]]:
    """The regular files below `directory` to upload, the report first; names of those left out."""
    small: list[Path] = []
    large: list[Path] = []
    skipped = directory / skip if skip else None
    for path, size in _regular_files(directory):
        if path == skipped:
            continue
        (small if size <= BYTES_PER_FILE else large).append(path)

    def rank(path: Path) -> tuple[bool, bool, Path]:
        return path.parent != directory, path.name not in _FIRST_FILES, path

    small.sort(key=rank)
    rest = [*sorted(large), *small[FILES_PER_REPORT:]]
    return small[:FILES_PER_REPORT], [str(path.relative_to(directory)) for path in rest]


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
