# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: searches and downloads artifacts of its jobs, within limits."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from msgspec import Struct

from ci_doctor.buildkite.agent import Agent, AgentResult, moving_s
from ci_doctor.system.files.access import make_directory

# --- a file on the Artifacts tab of a build ---


class Artifact(Struct, frozen=True, kw_only=True):
    """A file that a job uploaded: that job's id, its path on the Artifacts tab, its bytes."""

    job: str
    path: str
    size: int


# --- which artifacts of a build are downloaded, and in which calls of the agent ---
# One call downloads what all jobs uploaded, but of two artifacts with one path it leaves one. The paths
# come from jobs that anybody's change may have written.

# Where `build publish` puts the report of the whole build.
PUBLISHED_FOLDER = "ci-doctor-build"
# It is no report of a job.
_REPORT_OF_THE_BUILD = f"{PUBLISHED_FOLDER}/report.json"
_JOB = re.compile(r"[0-9A-Za-z-]{1,64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_PATH = 1000
_NAMED = 5  # artifacts in one problem


class DownloadLimits(Struct, frozen=True, kw_only=True):
    """Bytes of one file and of all, the number of files, seconds for one call and for all."""

    file_bytes: int = 32 * 1024 * 1024
    all_bytes: int = 1024 * 1024 * 1024
    files: int = 20_000
    call_s: float = 120.0
    all_s: float = 300.0


class DownloadPlan(Struct, frozen=True, kw_only=True):
    """What to download of one file name, or of a pattern of names such as `*.xml`.

    whole: one call for what no other artifact's path is. by_itself: artifacts that need a call each.
    problems: sentences about what is left out.
    """

    name: str
    whole: tuple[Artifact, ...] = ()
    by_itself: tuple[Artifact, ...] = ()
    problems: tuple[str, ...] = ()


def query_of(name: str) -> str:
    """The query of the agent for files called `name`, or those whose names match it."""
    return name if name.startswith("*") else f"*/{name}"


def plan_download(
    name: str, artifacts: Iterable[Artifact], limits: DownloadLimits, *, own_job: str | None
) -> DownloadPlan:
    """The plan for the artifacts called `name`; those of `own_job` are left out silently."""
    # A job may upload a file twice: the agent takes the later one.
    everything = {(each.job, each.path): each for each in artifacts}
    counts = Counter(path for _, path in everything)
    odd: list[Artifact] = []
    safe: list[Artifact] = []
    for each in everything.values():
        if _concerns(each, name, own_job):
            (safe if is_safe(each) else odd).append(each)
    fitting, large = _fitting(safe, limits)
    problems = _problems(odd, "its path or its job's id is odd")
    problems += _problems(large, "it is too large, or there are too many")
    # One call for all would fetch what must not be fetched, too.
    if odd or large:
        return DownloadPlan(name=name, by_itself=tuple(fitting), problems=problems)
    whole = tuple(each for each in fitting if counts[each.path] == 1)
    by_itself = tuple(each for each in fitting if counts[each.path] > 1)
    return DownloadPlan(name=name, whole=whole, by_itself=by_itself, problems=problems)


def _concerns(artifact: Artifact, name: str, own_job: str | None) -> bool:
    if artifact.job == own_job or artifact.path == _REPORT_OF_THE_BUILD:
        return False
    return fnmatchcase(PurePosixPath(artifact.path).name, name)


def is_safe(artifact: Artifact) -> bool:
    """Whether a file may be written under this path, in a folder named by this job."""
    path = artifact.path
    if _JOB.fullmatch(artifact.job) is None or len(path) > _LONGEST_PATH:
        return False
    if path.startswith(("/", "-")) or "\\" in path or _CONTROL.search(path):
        return False
    parts = path.split("/")
    return not {"", ".", ".."} & set(parts)


def _fitting(
    artifacts: Sequence[Artifact], limits: DownloadLimits
) -> tuple[list[Artifact], list[Artifact]]:
    """The artifacts within the limits, the small ones first, and the rest."""
    fitting: list[Artifact] = []
    large: list[Artifact] = []
    total = 0
    for each in sorted(artifacts, key=lambda artifact: artifact.size):
        total += each.size
        is_within = each.size <= limits.file_bytes and total <= limits.all_bytes
        if is_within and len(fitting) < limits.files:
            fitting.append(each)
        else:
            large.append(each)
    return fitting, large


def _problems(artifacts: Sequence[Artifact], reason: str) -> tuple[str, ...]:
    if not artifacts:
        return ()
    named = [f"{each.path[:200]!r} of job {each.job[:64]!r}" for each in artifacts[:_NAMED]]
    more = len(artifacts) - len(named)
    rest = f" and {more} more" if more else ""
    return (f"not downloaded, because {reason}: {', '.join(named)}{rest}",)


# --- searches and downloads the artifacts of all its jobs, by buildkite-agent ---
# https://buildkite.com/docs/agent/v3/cli-artifact

# The bytes themselves: agents 3.23 to 3.109.0 print the format as it is, and later ones unquote it as
# Go does (strconv.Unquote), which refuses a real line end. Neither of the two control characters
# stands in a sensible path, so an odd name is told apart from a record.
_FORMAT = "\x1e%j\x1f%s\x1f%p\x1e"
_RECORD = re.compile("\x1e([^\x1e\x1f]*)\x1f([0-9]*)\x1f([^\x1e\x1f]*)\x1e")
_NOTHING = ("no matches found", "no artifacts found")
TOO_OLD = "this buildkite-agent is older than 3.23 and cannot search artifacts"


class BuildAgent(Agent):
    """The agent, for what concerns all jobs of the build."""

    def search_artifacts(
        self, query: str, *, build: str | None = None, timeout_s: float | None = None
    ) -> tuple[tuple[Artifact, ...], AgentResult]:
        """The artifacts matching `query`, those of retried jobs too, and how the call ended.

        A `*` of the query stands for any characters, `/` too. Nothing that matches is no failure.
        build: the id of another build than this job's.
        """
        # Without --allow-empty-results, which makes a search that found nothing silent.
        arguments = ["artifact", "search", "--include-retried-jobs", "--format", _FORMAT]
        call = self._run([*arguments, *_of_build(build), query], timeout_s=timeout_s)
        if call.is_too_old:
            return (), AgentResult(ok=False, message=TOO_OLD)
        if call.has_ended and call.problem is not None and call.says(*_NOTHING):
            return (), AgentResult(ok=True, message=f"no artifact matches {query}")
        artifacts = tuple(
            Artifact(job=job, path=path, size=int(size or 0))
            for job, size, path in _RECORD.findall(call.output)
        )
        rest = _RECORD.sub("", call.output).strip()
        if call.problem is None and (rest or not artifacts):
            return artifacts, self._not_understood("artifact search", rest)
        done = f"{len(artifacts)} artifacts match {query}"
        return artifacts, self._result(arguments, call, done=done)

    def download_artifacts(
        self,
        query: str,
        into: Path,
        *,
        job: str | None = None,
        build: str | None = None,
        timeout_s: float | None = None,
        sizes: Sequence[int] = (),
    ) -> AgentResult:
        """Download what matches `query` below the directory `into`, under the artifacts' paths.

        `job`: of this job alone. `build`: as above. `sizes`: of the files, in bytes. Of artifacts with the same path, any one is left. The agent drops
        the last part of `into` if a path begins with it.
        """
        arguments = ["artifact", "download", "--include-retried-jobs"]
        if job is not None:
            arguments += ["--step", job]
        arguments += _of_build(build)
        # "." in the working directory: a destination without any option in front of it.
        arguments += [query, "."]
        work_s = moving_s(sizes)
        call = self._run(arguments, cwd=into, timeout_s=timeout_s, work_s=work_s)
        return self._result(arguments, call, done=f"downloaded {query}")


def _of_build(build: str | None) -> list[str]:
    return [] if build is None else ["--build", build]


# --- downloads artifacts of a build below a folder, within limits ---
# Two artifacts with one path are kept apart, and each file's job is known.


class ArtifactDownload:
    """The state of one download: where each artifact lies, and what went wrong.

    files: the job of each file. problems: sentences about what could not be had; with one, files
    may be missing. own_job: whose artifacts are left out. build: the id of another build.

    No artifact's path may begin with the name of `into`: see BuildAgent.download_artifacts.
    """

    def __init__(
        self,
        agent: BuildAgent,
        into: Path,
        limits: DownloadLimits,
        *,
        own_job: str | None = None,
        build: str | None = None,
    ) -> None:
        self.problems: list[str] = []
        self.files: dict[Path, str] = {}
        self._agent = agent
        self._into = into
        self._limits = limits
        self._own_job = own_job
        self._build = build
        self._deadline = time.monotonic() + limits.all_s

    def fetch(self, name: str) -> AgentResult:
        """Download all artifacts called `name`, or whose names match it; how the search ended."""
        artifacts, result = self._agent.search_artifacts(
            query_of(name), build=self._build, timeout_s=self._call_s()
        )
        if not result.ok:
            self.problems.append(result.message)
        plan = plan_download(name, artifacts, self._limits, own_job=self._own_job)
        self.problems += plan.problems
        self._fetch_whole(plan)
        for each in plan.by_itself:
            folder = self._into / f"of-{each.job}"
            self._get(each.path, folder, job=each.job, sizes=[each.size])
            self._keep([each], folder)
        return result

    def _fetch_whole(self, plan: DownloadPlan) -> None:
        if not plan.whole:
            return
        folder = self._into
        self._get(query_of(plan.name), folder, sizes=[each.size for each in plan.whole])
        kept = self._keep(plan.whole, folder)
        # The query matches an own job's files as well, and those with another's path.
        for path in folder.rglob(plan.name):
            # A folder may have the name too: `job.json/job.json`.
            if path not in kept and path not in self.files and not path.is_dir():
                path.unlink()

    def _keep(self, artifacts: Sequence[Artifact], folder: Path) -> set[Path]:
        """Remember where `artifacts` lie; one that is not there is a problem."""
        paths = {folder / each.path: each for each in artifacts}
        missing = [each for path, each in paths.items() if not path.is_file()]
        for each in missing[:5]:
            self.problems.append(f"{each.path!r} of job {each.job} could not be downloaded")
        if len(missing) > 5:
            self.problems.append(f"{len(missing) - 5} more could not be downloaded")
        for path, each in paths.items():
            if path.is_file():
                self.files[path] = each.job
        return set(paths)

    def _get(
        self, query: str, folder: Path, *, job: str | None = None, sizes: Sequence[int] = ()
    ) -> None:
        try:
            make_directory(folder)
        except OSError as error:
            self.problems.append(f"{query}: {error.strerror or error}")
            return
        if self._call_s() <= 0:
            result = AgentResult(ok=False, message=f"{query}: the time for downloads is over")
        else:
            result = self._agent.download_artifacts(
                query, folder, job=job, build=self._build, timeout_s=self._call_s(), sizes=sizes
            )
        if not result.ok:
            self.problems.append(result.message)

    def _call_s(self) -> float:
        return min(self._limits.call_s, self._deadline - time.monotonic())
