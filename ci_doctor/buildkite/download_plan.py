# SPDX-License-Identifier: Apache-2.0
"""Pure. Which artifacts of a build are downloaded, and in which calls of the agent.

One call downloads what all jobs uploaded, but of two artifacts with one path it leaves one. The paths
come from jobs that anybody's change may have written.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from msgspec import Struct

from ci_doctor.buildkite.artifact import Artifact

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

    @property
    def query(self) -> str:
        """What the agent is asked for; its `*` stands for folders too."""
        return query_of(self.name)


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
