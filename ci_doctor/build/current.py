# SPDX-License-Identifier: Apache-2.0
"""Acts on files and the agent: downloads what the jobs of this build have uploaded for a merge."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.build.collect import MOST_BYTES
from ci_doctor.build.own_step import is_own_record
from ci_doctor.buildkite.api_time import ApiTime
from ci_doctor.buildkite.artifact_download import ArtifactDownload
from ci_doctor.buildkite.artifacts import TOO_OLD, BuildAgent
from ci_doctor.buildkite.download_plan import DownloadLimits
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.decodable import decodable
from ci_doctor.model.job_record import JOB_FILE, JobRecord
from ci_doctor.render import REPORT_FILE

_RECORD_BYTES = 1024 * 1024
_OUR_BEGINNING = b'{"schema":"ci-doctor/'  # without white space
_NO_AGENT = "not a Buildkite job, or no buildkite-agent on PATH: nothing is downloaded"


class Current(Struct, frozen=True, kw_only=True):
    """The job.json and report.json files of this build below `directory`.

    They lie under their paths on the Artifacts tab, those with one path in a folder for each job.
    `problems` are sentences about what could not be read; with one, files may be missing.
    """

    directory: Path
    problems: tuple[str, ...] = ()


def download_current(
    environ: Mapping[str, str],
    into: Path,
    *,
    limits: DownloadLimits | None = None,
    api_time: ApiTime | None = None,
) -> Current:
    """Download the records and reports of all jobs of this build below the directory `into`.

    No artifact's path may begin with the name of `into`: see BuildAgent.download_artifacts.

    Those of retried jobs are there too. This job's own are not, nor are those of earlier attempts
    of its step. Never raises for the agent's failures: they are problems.
    """
    agent = BuildAgent.find(environ, api_time=api_time)
    job = JobEnvironment.from_environ(environ)
    if agent is None or job is None:
        return Current(directory=into, problems=(_NO_AGENT,))
    download = ArtifactDownload(agent, into, limits or DownloadLimits(), own_job=job.job_id)
    for name in (JOB_FILE, REPORT_FILE):
        if download.fetch(name).message == TOO_OLD:
            download.problems.append(f"{TOO_OLD}: of two {name} with one path, one is missing here")
            download.fetch_unsearched(name)
    files = _without_other_tools(download.files)
    _drop_own_step(files, job)
    return Current(directory=into, problems=tuple(download.problems))


def _without_other_tools(files: Mapping[Path, str]) -> dict[Path, str]:
    """The job of each file that may be ours; the others are removed."""
    kept = {}
    for path, job in files.items():
        if _is_of_another_tool(path, job):
            path.unlink()
        else:
            kept[path] = job
    return kept


def _drop_own_step(files: Mapping[Path, str], job: JobEnvironment) -> None:
    """Remove the files of earlier attempts of this job: it reports on the others."""
    own = {of for path, of in files.items() if _is_own_step(path, job)}
    for path, of in files.items():
        if of in own:
            path.unlink(missing_ok=True)


def _is_own_step(path: Path, job: JobEnvironment) -> bool:
    if path.name != JOB_FILE:
        return False
    record = _record(path)
    return record is not None and is_own_record(record, job)


def _record(path: Path) -> JobRecord | None:
    """None for one that cannot be read: the merge says so."""
    try:
        return msgspec.json.decode(_beginning(path, _RECORD_BYTES), type=decodable(JobRecord))
    except (OSError, msgspec.DecodeError, UnicodeError):
        return None


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
