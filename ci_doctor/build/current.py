# SPDX-License-Identifier: Apache-2.0
"""Acts on files and the agent: downloads what the jobs of this build have uploaded for a merge."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.build.collect import MOST_BYTES
from ci_doctor.build.download_plan import NAMES, DownloadLimits, DownloadPlan, plan_download
from ci_doctor.build.own_step import is_own_record
from ci_doctor.buildkite.agent import AgentResult
from ci_doctor.buildkite.artifact import Artifact
from ci_doctor.buildkite.artifacts import TOO_OLD, BuildAgent
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.model.job_record import JOB_FILE, JobRecord
from ci_doctor.system.files.directories import make_directory

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
    environ: Mapping[str, str], into: Path, *, limits: DownloadLimits | None = None
) -> Current:
    """Download the records and reports of all jobs of this build below the directory `into`.

    No artifact's path may begin with the name of `into`: see BuildAgent.download_artifacts.

    Those of retried jobs are there too. This job's own are not, nor are those of earlier attempts
    of its step. Never raises for the agent's failures: they are problems.
    """
    agent = BuildAgent.find(environ)
    job = JobEnvironment.from_environ(environ)
    if agent is None or job is None:
        return Current(directory=into, problems=(_NO_AGENT,))
    download = _Download(agent, job, into, limits or DownloadLimits())
    for name in NAMES:
        download.fetch(name)
    download.drop_own_step()
    return Current(directory=into, problems=tuple(download.problems))


class _Download:
    """The state of one download: where each artifact lies, and what went wrong."""

    def __init__(
        self, agent: BuildAgent, job: JobEnvironment, into: Path, limits: DownloadLimits
    ) -> None:
        self.problems: list[str] = []
        self._agent = agent
        self._job = job
        self._into = into
        self._limits = limits
        self._deadline = time.monotonic() + limits.all_s
        self._files: dict[Path, str] = {}  # the job of each file

    def fetch(self, name: str) -> None:
        """Download all artifacts called `name`."""
        artifacts, result = self._agent.search_artifacts(f"*/{name}", timeout_s=self._call_s())
        if result.message == TOO_OLD:
            self._fetch_unsearched(name)
            return
        if not result.ok:
            self.problems.append(result.message)
        plan = plan_download(name, artifacts, self._limits, own_job=self._job.job_id)
        self.problems += plan.problems
        self._fetch_whole(plan)
        for each in plan.by_itself:
            folder = self._into / f"of-{each.job}"
            self._get(each.path, folder, job=each.job)
            self._keep([each], folder)

    def _fetch_unsearched(self, name: str) -> None:
        """Without a search nobody knows which job an artifact is of, nor how large it is."""
        self.problems.append(f"{TOO_OLD}: of two {name} with one path, one is missing here")
        # No artifact is a failure of `download`, as any other.
        self._get(f"*/{name}", self._into)

    def _fetch_whole(self, plan: DownloadPlan) -> None:
        if not plan.whole:
            return
        folder = self._into
        self._get(plan.query, folder)
        kept = self._keep(plan.whole, folder)
        # The query matches this job's own files as well, and those with another's path.
        for path in folder.rglob(plan.name):
            # A folder may have the name too: `job.json/job.json`.
            if path not in kept and not path.is_dir():
                path.unlink()

    def _keep(self, artifacts: Sequence[Artifact], folder: Path) -> set[Path]:
        """Remember where `artifacts` lie; one that is not there is a problem."""
        paths = {folder / each.path: each for each in artifacts}
        missing = [each for path, each in paths.items() if not path.is_file()]
        for each in missing[:5]:
            self.problems.append(f"{each.path!r} of job {each.job} could not be downloaded")
        if len(missing) > 5:
            self.problems.append(f"{len(missing) - 5} more files could not be downloaded")
        for path, each in paths.items():
            if not path.is_file():
                continue
            if _is_of_another_tool(path, each.job):
                path.unlink()
            else:
                self._files[path] = each.job
        return set(paths)

    def _get(self, query: str, folder: Path, *, job: str | None = None) -> None:
        try:
            make_directory(folder)
        except OSError as error:
            self.problems.append(f"{query}: {error.strerror or error}")
            return
        if self._call_s() <= 0:
            result = AgentResult(ok=False, message=f"{query}: the time for downloads is over")
        else:
            result = self._agent.download_artifacts(
                query, folder, job=job, timeout_s=self._call_s()
            )
        if not result.ok:
            self.problems.append(result.message)

    def _call_s(self) -> float:
        return min(self._limits.call_s, self._deadline - time.monotonic())

    def drop_own_step(self) -> None:
        """Remove the files of earlier attempts of this job: it reports on the others."""
        own = {job for path, job in self._files.items() if self._is_own_step(path)}
        for path, job in self._files.items():
            if job in own:
                path.unlink(missing_ok=True)

    def _is_own_step(self, path: Path) -> bool:
        if path.name != JOB_FILE:
            return False
        record = _record(path)
        return record is not None and is_own_record(record, self._job)


def _record(path: Path) -> JobRecord | None:
    """None for one that cannot be read: the merge says so."""
    try:
        return msgspec.json.decode(_beginning(path, _RECORD_BYTES), type=JobRecord)
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
